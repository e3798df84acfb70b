"""Files of sessions: one package for each backend, opened by its `Settings`."""
