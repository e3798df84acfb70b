"""The file of the database: opened, made ready, put on the disk, and what is wrong with it."""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from loom_ia.adapters import io
from loom_ia.adapters.files import KEY_BYTES, make_folder, refusal, reported, sync_folder
from loom_ia.adapters.io import BlockedError
from loom_ia.adapters.storage.sqlite.sql import SCHEMA, migrations, queries, statements
from loom_ia.core.errors import StoreUnavailableError
from loom_ia.core.text import Text

APPLICATION = 0x4C6F6F6D
"""`Loom`, in the header of our databases."""
CACHE = 16_000
"""Kilobytes of pages at most, so that many runs at once find theirs in memory."""
LOG = 64_000_000
"""Bytes that the log keeps once what made it longer is over, such as somebody's long reading."""
MOUNTS = Path("/proc/self/mountinfo")
_REMOTE = re.compile(
    r"(?:nfs|nfs4|cifs|smb2|smb3|smbfs|ncpfs|afs|9p|ceph|fuse\.(?:sshfs|s3fs|glusterfs|rclone))"
)
_FULL = Text("the disk is full; make room on it, then go on")
_BROKEN = Text("the disk refused a read or a write; check it, then go on")
_DENIED = Text("permission denied; give this user the right to read and write there")
_FOREIGN = Text("not a database of Loom-IA, or a damaged one; restore it, or change the path")
_NEWER = Text("written by a newer version of Loom-IA; update it, or change the path")
_FOLDER = Text("a file is expected there, not a folder; change the path")
_MOVED = Text("the file was moved or replaced while it was open; start this process again")
_NETWORK = Text("on a network drive, where SQLite loses data; put it on a disk of this machine")
_REASONS: dict[int, Text] = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: _BROKEN,
    sqlite3.SQLITE_READONLY: _DENIED,
    sqlite3.SQLITE_CANTOPEN: _DENIED,
    sqlite3.SQLITE_PERM: _DENIED,
    sqlite3.SQLITE_CORRUPT: _FOREIGN,
    sqlite3.SQLITE_NOTADB: _FOREIGN,
}


def refused(path: Path, error: BaseException) -> Exception:
    """What an error of SQLite becomes; `BlockedError` for a lock, which is waited for."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    if primary in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return held(path)
    known = None if primary is None else _REASONS.get(primary)
    return StoreUnavailableError(path=str(path), reason=known or str(error))


def held(path: Path) -> BlockedError:
    """What is raised for a file that another process holds: it is waited for, then said."""
    reason = Text("locked by another process for {n:g} s", {"n": io.WAIT})
    return BlockedError(StoreUnavailableError(path=str(path), reason=reason))


@contextmanager
def guarded(path: Path) -> Generator[None]:
    """Turn an error of SQLite about `path` into one of the store's."""
    try:
        yield
    except sqlite3.Error as error:
        raise refused(path, error) from error


class Database:
    """One file, and the connections of this process to it.

    Commits are handed to the operating system; `sync` puts on the disk all of them until now.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()  # the working directory may change
        self._identity = (0, 0)
        self._log = -1

    def start(self) -> sqlite3.Connection:
        """Make the file ready; the writer's connection.

        Raises:
            StoreUnavailableError, sqlite3.Error: it cannot be used.

        """
        refuse_remote(self.path)
        with reported(self.path.parent):
            make_folder(self.path.parent, top=self.path.parent)
        if self.path.is_dir():
            raise StoreUnavailableError(path=str(self.path), reason=_FOLDER)
        with reported(self.path):
            self._create()
        connection = self.connect()
        try:
            _prepare(connection, self.path)
            self._open_log()
        except BaseException:
            connection.close()
            raise
        return connection

    def connect(self) -> sqlite3.Connection:
        """A connection, that one thread uses at a time and no wait slows down."""
        return sqlite3.connect(
            self.path,
            isolation_level=None,
            timeout=0,  # whoever is refused tries again later
            check_same_thread=False,
        )

    def check(self) -> None:
        """Refuse to write to a file that nobody would find again.

        Raises:
            StoreUnavailableError: the path names another file.

        """
        if self._identity != _identity(self.path):
            raise StoreUnavailableError(path=str(self.path), reason=_MOVED)

    def sync(self) -> None:
        """Put every commit on the disk: the log holds each that the database does not hold yet.

        Raises:
            StoreUnavailableError: the disk did not take it.

        """
        try:
            os.fdatasync(self._log)
        except OSError as error:
            reason = Text("{why}; what was written may be lost", {"why": refusal(error)})
            raise StoreUnavailableError(path=str(self.path), reason=reason) from error

    def close(self) -> None:
        """Give back what `start` took, but the connection."""
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    def _create(self) -> None:
        """The file, for this user only; SQLite gives its companions the same rights."""
        # Never opened once it exists: closing it would free the locks of this process on it.
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    def _open_log(self) -> None:
        with reported(self.path):
            self._identity = _identity(self.path)
            self._log = os.open(f"{self.path}-wal", os.O_RDWR | os.O_CLOEXEC)
            sync_folder(self.path.parent)


class LogSync:
    """Puts on the disk every commit until it is asked to."""

    def __init__(self, database: Database) -> None:
        self.flush = database.sync

    def close(self) -> None:
        """Nothing is held."""


def key_of(connection: sqlite3.Connection) -> bytes:
    """Secret key of the database."""
    row: tuple[bytes] = connection.execute(queries()["secret"], ("blobs",)).fetchone()
    return row[0]


def _identity(path: Path) -> tuple[int, int]:
    try:
        stat = os.stat(path)  # noqa: PTH116  called at each write
    except OSError:
        return (0, 0)
    return stat.st_dev, stat.st_ino


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema up to date, once whatever the number of processes that try."""
    _refuse_foreign(connection, path)
    mode: tuple[str] = connection.execute("PRAGMA journal_mode = wal").fetchone()
    if mode[0] != "wal":
        raise StoreUnavailableError(path=str(path), reason=_NETWORK)
    connection.execute("PRAGMA synchronous = normal")
    connection.execute("PRAGMA secure_delete = on")
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # it syncs; the writer says when
    connection.execute(f"PRAGMA cache_size = -{CACHE}")
    connection.execute(f"PRAGMA journal_size_limit = {LOG}")
    if _refuse_foreign(connection, path) == len(migrations()):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _refuse_foreign(connection, path)
        if version < len(migrations()):  # no other process came first
            _migrate(connection, version)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    files = migrations()[version:] if version else [SCHEMA]
    for file in files:
        for statement in statements(file):
            connection.execute(statement)
    if not version:
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(queries()["add_secret"], ("blobs", secrets.token_bytes(KEY_BYTES)))
    connection.execute(f"PRAGMA user_version = {len(migrations())}")


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> int:
    """Version of the schema, 0 for an empty database.

    Raises:
        StoreUnavailableError: the database is not ours, or not of our time.

    """
    found: tuple[int, int, int] = connection.execute(queries()["version"]).fetchone()
    application, version, objects = found
    if application == APPLICATION and 0 < version <= len(migrations()):
        return version
    if not objects and not application:
        return 0
    reason = _NEWER if application == APPLICATION else _FOREIGN
    raise StoreUnavailableError(path=str(path), reason=reason)


def refuse_remote(path: Path) -> None:
    """Refuse a file that several machines may open: the log is shared through their memory."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return  # this system tells it otherwise, or not at all
    kinds: dict[Path, str] = {}
    for line in lines:
        own, _, rest = line.partition(" - ")
        kinds[Path(own.split()[4].replace("\\040", " "))] = rest.split()[0]
    where = next((parent for parent in path.parents if parent in kinds), None)
    if where is not None and _REMOTE.fullmatch(kinds[where]):
        raise StoreUnavailableError(path=str(path), reason=_NETWORK)
