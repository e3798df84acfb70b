"""What the core asks of the checks of a text: a contract reads it, and says what it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found."""

    diagnosis: str = ""
    """What the author of the text is told; empty when it is accepted."""
    text: str | None = None
    """What the text becomes; None when it stays as it is."""
    parsed: bool = False
    """The text was read as JSON."""

    @property
    def accepted(self) -> bool:
        """True when nothing is wrong."""
        return not self.diagnosis


class Form(Protocol):
    """The form that a text must have."""

    async def check(self, text: str) -> Finding:
        """What is found in a text; it never raises, and bounds its own time."""
        ...
