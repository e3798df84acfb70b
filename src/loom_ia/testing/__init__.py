"""What tests of agents need: a scripted model, a clock and identifiers that obey."""

from loom_ia.testing.clock import ManualClock, ManualIds
from loom_ia.testing.scripted import ScriptedModel

__all__ = ("ManualClock", "ManualIds", "ScriptedModel")
