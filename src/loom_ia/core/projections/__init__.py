"""Views folded from events: the run index, the trace, the history of a session."""
