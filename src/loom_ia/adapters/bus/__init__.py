"""What wakes followers: one package for each backend, opened by its `Settings`."""
