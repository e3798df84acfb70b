"""Idempotency keys: one package for each backend, opened by its `Settings`."""
