"""What a backend is given when its settings open it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path


def utc_now() -> datetime:
    """Instant of this machine."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Env:
    """Surroundings of a configuration."""

    root: Path
    """Directory of the configuration file; relative paths start there."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    clock: Callable[[], datetime] = utc_now

    def path(self, name: str) -> Path:
        """Path of a name written in the configuration."""
        return self.root / name
