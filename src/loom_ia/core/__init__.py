"""Types, facts and decisions of a run: no input or output, no clock, no randomness."""
