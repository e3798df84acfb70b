"""Servers of tools that speak the Model Context Protocol, in both of its eras."""

from loom_ia.adapters.sources.mcp.settings import Settings

__all__ = ("Settings",)
