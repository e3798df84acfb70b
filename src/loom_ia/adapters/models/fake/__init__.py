"""A model that plays a script: no key, no network, the same answers each time."""

from loom_ia.adapters.models.fake.model import FakeModel
from loom_ia.adapters.models.fake.settings import Settings

__all__ = ("FakeModel", "Settings")
