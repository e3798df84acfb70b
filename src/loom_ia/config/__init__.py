"""The configuration: read, checked, every problem told with its place."""

from __future__ import annotations

from loom_ia.config.errors import ConfigError, Issue, Place
from loom_ia.config.model import (
    AttachmentsSection,
    CaptureSection,
    ExecutionSection,
    LoggingSection,
    LoomConfig,
    ServerSection,
    StorageBackend,
    StorageSection,
    TelemetrySection,
)

__all__ = (
    "AttachmentsSection",
    "CaptureSection",
    "ConfigError",
    "ExecutionSection",
    "Issue",
    "LoggingSection",
    "LoomConfig",
    "Place",
    "ServerSection",
    "StorageBackend",
    "StorageSection",
    "TelemetrySection",
)
