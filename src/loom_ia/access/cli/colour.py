"""Colours, on terminals only."""

from __future__ import annotations

import os
from typing import Literal, TextIO

Style = Literal["good", "warn", "bad", "strong", "faint"]
CODES = {"good": "32", "warn": "33", "bad": "31", "strong": "1", "faint": "2"}
"""Parameters of SGR. Source: ECMA-48, 8.3.117."""
STATUSES: dict[str, Style] = {"completed": "good", "failed": "bad", "cancelled": "bad"}


def terminal(stream: TextIO) -> bool:
    """Tell whether a person looks at this stream, on a terminal that moves its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def coloured(stream: TextIO) -> bool:
    """Tell whether colours go to this stream: to a terminal, unless the user said otherwise.

    Source: https://no-color.org, https://force-color.org.
    """
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR")
    return forced != "0" if forced else terminal(stream)


def paint(text: object, style: Style | None, stream: TextIO) -> str:
    """Text as it goes to the stream."""
    if style is None or not text or not coloured(stream):
        return str(text)
    return f"\x1b[{CODES[style]}m{text}\x1b[0m"


def style_of(status: str) -> Style:
    """Style of a run's status: what has not ended waits for something."""
    return STATUSES.get(status, "warn")
