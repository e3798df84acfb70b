"""The statements of this backend, read from its `.sql` files by the threads that use them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
_BLOCK = re.compile(r"^-- name: (\w+)\n(.*?;)\s*(?=^-- name:|\Z)", re.MULTILINE | re.DOTALL)
_STEPS = (32, 8)
SCHEMA = _HERE / "schema.sql"
"""What the migrations add up to; a new database is made of it at once."""


@cache
def migrations() -> Sequence[Path]:
    """What brings a database of each version to the next one; the first is for an empty one."""
    return sorted(_HERE.joinpath("migrations").glob("*.sql"))


@cache
def queries() -> dict[str, str]:
    """Statements by the name written above each."""
    return dict(_BLOCK.findall((_HERE / "queries.sql").read_text(encoding="utf-8")))


def statements(path: Path) -> Iterator[str]:
    """Statements of a file, one by one, so that they may stand in one transaction."""
    pending = ""
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def ask(connection: sqlite3.Connection, name: str, *values: object) -> sqlite3.Cursor:
    """Rows of a statement; none for an identifier that no database could hold."""
    try:
        return connection.execute(queries()[name], values)
    except UnicodeEncodeError:
        return connection.cursor()


def insert(connection: sqlite3.Connection, name: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows, many at each step: at the end of one, another thread takes the interpreter."""
    one, done = queries()[name], 0
    before, values, row = one.rstrip(";").partition("VALUES ")
    for size in _STEPS:
        while len(rows) - done >= size:
            step = rows[done : done + size]
            many = f"{before}{values}{', '.join([row] * size)}"
            connection.execute(many, [value for one_row in step for value in one_row])
            done += size
    connection.executemany(one, rows[done:])
