"""OpenAI, and the servers that speak its Chat Completions or its Responses API."""

from loom_ia.adapters.models.openai.settings import Settings

__all__ = ("Settings",)
