"""Numbers and tables for people, in their language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from loom_ia.access.cli.colour import paint
from loom_ia.access.cli.session import answers, printable
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal


def number(value: int | Decimal, places: int = 0) -> str:
    """A number as the reader writes it: `1,234.50`, `1 234,50`."""
    thousands, point = str(Text("1,234.5"))[1], str(Text("1,234.5"))[-2]
    return f"{value:,.{places}f}".translate(str.maketrans({",": thousands, ".": point}))


def instant(at: datetime) -> str:
    """An instant, the same in every language."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def table(rows: Sequence[Sequence[str]], *, left: int) -> Iterator[str]:
    """Lines of a table whose first row is its head; all columns but the first `left` are numbers.

    Nothing but spaces stands between columns, so that the lines can be cut by other programs.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for place, row in enumerate(shown):
        cells = [
            f"{cell:<{width}}" if index < left else f"{cell:>{width}}"
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(cells).rstrip()
        yield line if place else paint(line, "strong", answers())
