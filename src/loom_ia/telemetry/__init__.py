"""What a process tells of itself beside the journals."""

from loom_ia.telemetry.logging import configure_logging

__all__ = ("configure_logging",)
