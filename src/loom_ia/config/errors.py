"""What is wrong in a configuration: every problem with its place, gathered in one error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.text import Text

Loc = tuple[str | int, ...]
"""Path to a value of a document: keys and indices."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A point of a file, from 1; line 0 is the file as a whole, no path is Python code."""

    path: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}" if self.line else self.path


@dataclass(frozen=True, slots=True)
class Issue:
    """One problem."""

    place: Place
    text: Text
    loc: Loc = ()
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return ": ".join(
            part for part in (str(self.place), dotted(self.loc), str(self.text)) if part
        )


def dotted(loc: Loc) -> str:
    """Path as people write it: `models[0].sdk`."""
    out = ""
    for part in loc:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out


class ConfigError(LoomError):
    """The configuration cannot be used; `issues` holds every reason, in the order of the files."""

    kind = Kind.CONFIG
    template = "{issues}"

    def __init__(self, issues: Iterable[Issue]) -> None:
        ordered = sorted(issues, key=lambda issue: issue.place)
        self.issues = tuple({(i.place, i.loc, i.text.msgid): i for i in ordered}.values())
        super().__init__(issues="\n".join(map(str, self.issues)))

    def __str__(self) -> str:
        return "\n".join(map(str, self.issues))
