"""The table of keys, used by one thread; each change is on the disk when it returns."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from loom_ia.adapters.files import make_folder, reported
from loom_ia.adapters.idempotency.table import token
from loom_ia.adapters.io import Lane
from loom_ia.adapters.storage.sqlite.database import guarded, refuse_remote
from loom_ia.core.errors import StoreUnavailableError
from loom_ia.core.model import ContentBlock
from loom_ia.core.ports import Claim, Reservation, RunRef
from loom_ia.core.text import Text

T = TypeVar("T")
Row = tuple[str, str, str, str, str, str, str | None]

APPLICATION = 0x4C6F6F4B
"""`LooK`, in the header of our databases of keys."""
VERSION = 1
_BLOCK = re.compile(r"^-- name: (\w+)\n(.*?;)\s*(?=^-- name:|\Z)", re.MULTILINE | re.DOTALL)
_FOREIGN = Text("not a database of idempotency keys; give them a file of their own")
_NEWER = Text("written by a newer version of Loom-IA; update it, or change the path")
_RESULT: TypeAdapter[tuple[ContentBlock, ...]] = TypeAdapter(tuple[ContentBlock, ...])


class SqliteKeys:
    """Keys of every tenant, in one file."""

    shared = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lane = Lane("loom-keys")
        self._connection: sqlite3.Connection | None = None

    async def start(self) -> None:
        """Make the file ready.

        Raises:
            StoreUnavailableError: it cannot be used.

        """
        await self._do(self._open)

    async def aclose(self) -> None:
        """Finish what was asked, then close."""
        await self._lane.aclose(self._close)

    async def reserve(self, claim: Claim, *, over: str | None = None) -> Reservation:
        return await self._do(partial(self._reserve, claim, over))

    async def keep(self, held: Reservation, result: tuple[ContentBlock, ...]) -> None:
        claim, text = held.owner, _RESULT.dump_json(result).decode()
        await self._do(
            partial(self._change, "keep", text, *_place(claim), claim.ref.run_id, claim.call_id)
        )

    async def free(self, held: Reservation) -> None:
        await self._do(partial(self._change, "free", *_place(held.owner), held.token))

    async def drop(self, tenant_id: str, session_id: str) -> None:
        await self._do(partial(self._change, "drop", tenant_id, session_id))

    async def _do(self, job: Callable[[], T]) -> T:
        def done() -> T:
            with guarded(self._path):
                return job()

        return await self._lane.call(done)

    def _open(self) -> None:
        path = self._path = self._path.absolute()  # the working directory may change
        refuse_remote(path)
        with reported(path.parent):
            make_folder(path.parent, top=path.parent)
        if not path.exists():
            with reported(path):
                path.touch(mode=0o600)
        connection = sqlite3.connect(
            path,
            isolation_level=None,
            timeout=0,  # the lane tries again
            check_same_thread=False,
        )
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _reserve(self, claim: Claim, over: str | None) -> Reservation:
        with self._turn() as connection:
            row: Row | None = connection.execute(_sql()["find"], _place(claim)).fetchone()
            held = None if row is None else _read(row, claim)
            if held is not None and held.owner.same_call(claim):
                held = Reservation(claim, token(), held.result)
            elif held is None or held.token == over:
                held = Reservation(claim, token())
            else:
                return held
            text = None if held.result is None else _RESULT.dump_json(held.result).decode()
            ref = claim.ref
            values = (ref.session_id, ref.run_id, ref.root_id, claim.call_id, claim.digest)
            connection.execute(_sql()["take"], (*_place(claim), *values, held.token, text))
            return held

    def _change(self, name: str, *values: str) -> None:
        with self._turn() as connection:
            connection.execute(_sql()[name], values)

    @contextmanager
    def _turn(self) -> Generator[sqlite3.Connection]:
        """One transaction, on the disk when it ends."""
        if self._connection is None or not self._path.exists():
            reason = Text("the file was moved or erased while it was open; start this again")
            raise StoreUnavailableError(path=str(self._path), reason=reason)
        with _transaction(self._connection):
            yield self._connection


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema to its version, once whatever the number of processes that try."""
    if _refuse_foreign(connection, path) != VERSION:
        with _transaction(connection):
            if _refuse_foreign(connection, path) != VERSION:
                for name in ("schema", "by_session"):
                    connection.execute(_sql()[name])
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("PRAGMA synchronous = full")
    connection.execute("PRAGMA secure_delete = on")


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> int:
    """Version of the schema, 0 for an empty database.

    Raises:
        StoreUnavailableError: the database is not one of keys, or not of our time.

    """
    found: tuple[int, int, int] = connection.execute(_sql()["version"]).fetchone()
    application, version, objects = found
    if application == APPLICATION and version == VERSION:
        return version
    if not objects and not application:
        return 0
    reason = _NEWER if application == APPLICATION else _FOREIGN
    raise StoreUnavailableError(path=str(path), reason=reason)


def _place(claim: Claim) -> tuple[str, str, str]:
    return claim.ref.tenant_id, claim.tool, claim.key


def _read(row: Row, claim: Claim) -> Reservation:
    session, run, root, call, digest, mark, result = row
    ref = RunRef(claim.ref.tenant_id, session, run, root)
    blocks = None if result is None else _RESULT.validate_json(result)
    return Reservation(Claim(ref, call, claim.tool, claim.key, digest), mark, blocks)


@cache
def _sql() -> dict[str, str]:
    """Statements by the name written above each."""
    return dict(_BLOCK.findall((Path(__file__).parent / "queries.sql").read_text(encoding="utf-8")))
