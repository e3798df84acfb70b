"""Claude, and the servers that speak its Messages API."""

from loom_ia.adapters.models.anthropic.settings import Settings

__all__ = ("Settings",)
