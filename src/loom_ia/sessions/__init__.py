"""Conversations: what a run is told of those before it."""

from loom_ia.sessions.heads import Histories
from loom_ia.sessions.history import History, history_of

__all__ = ("Histories", "History", "history_of")
