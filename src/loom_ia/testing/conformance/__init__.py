"""What every backend of a port must do: checks that a project may run on its own adapters."""
