"""Loom-IA: an agent engine whose runs are their journal."""
