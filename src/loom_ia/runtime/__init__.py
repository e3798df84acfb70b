"""Puts the parts together: stores, models, agents, and the runs of one process."""
