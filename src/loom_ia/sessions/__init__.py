"""Conversations: what a run is told of those before it."""

from loom_ia.sessions.history import History, history_of

__all__ = ("History", "history_of")
