"""The clock and the identifiers of this machine."""

from loom_ia.adapters.system.clock import SystemClock
from loom_ia.adapters.system.ids import SystemIds

__all__ = ("SystemClock", "SystemIds")
