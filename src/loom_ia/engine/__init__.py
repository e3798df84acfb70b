"""Drives runs: plans, performs, writes, applies, again."""
