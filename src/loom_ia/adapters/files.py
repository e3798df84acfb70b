"""Files that are whole or absent, whatever stops the machine, and the key of a folder."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from loom_ia.adapters import io
from loom_ia.adapters.io import BlockedError
from loom_ia.core.causes import cause
from loom_ia.core.errors import StoreUnavailableError
from loom_ia.core.text import Text

KEY_BYTES = 32
DIGEST_BYTES = 16
DRAFT = ".tmp"


@contextmanager
def reported(path: Path | str) -> Generator[None]:
    """Turn an error of the system about `path` into one of the store's."""
    try:
        yield
    except OSError as error:
        raise unavailable(path, error) from error


def unavailable(path: Path | str, error: OSError) -> StoreUnavailableError:
    """What is raised for an error of the system about `path`."""
    at = Path(os.fsdecode(error.filename or path))
    at = at.parent if at.suffix == DRAFT else at
    return StoreUnavailableError(path=str(at), reason=refusal(error))


def refusal(error: OSError) -> Text:
    """What the system refused, and what to do about it."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return Text("the disk is full; make room on it, then go on")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return Text("permission denied; give this user the right to read and write there")
        case errno.EEXIST | errno.ENOTDIR:
            return Text("a folder is expected there, not a file; move it, or change the path")
        case _:
            return cause(error)


def lock_file(fd: int, path: Path) -> None:
    """Take the lock of an open file at once.

    Raises:
        BlockedError: another process holds it.

    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        reason = Text("locked by another process for {n:g} s", {"n": io.WAIT})
        raise BlockedError(StoreUnavailableError(path=str(path), reason=reason)) from None


def make_folder(path: Path, *, top: Path) -> None:
    """Create a folder and its missing parents up to `top`, for this user only, on the disk."""
    if path.is_dir():
        return
    if path != top:
        make_folder(path.parent, top=top)
        path.mkdir(mode=0o700, exist_ok=True)
    else:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Put on the disk which names a folder holds."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write everything.

    Raises:
        OSError: the system did not take it all.

    """
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def replace_file(path: Path, data: bytes, *, sync: bool) -> None:
    """Write a file whole under its name, in place of what was there."""
    draft = path.with_name(f".{secrets.token_hex(8)}{DRAFT}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            write_all(fd, data)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def read_file(path: Path | str) -> bytes | None:
    """Content of a file, None when there is none; cheaper than opening it as an object."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        data = os.read(fd, 65536)
        if len(data) < 65536:  # noqa: PLR2004  it came whole
            return data
        rest = [data]
        while data := os.read(fd, 1 << 20):
            rest.append(data)
        return b"".join(rest)
    finally:
        os.close(fd)


def folder_key(folder: Path) -> bytes:
    """Secret key of a folder, drawn once; processes that start together agree on it."""
    path = folder / ".key"
    key = read_file(path)
    if key is None:
        draft = folder / f".{secrets.token_hex(8)}{DRAFT}"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            write_all(fd, secrets.token_bytes(KEY_BYTES))
            os.fsync(fd)
        finally:
            os.close(fd)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        sync_folder(folder)
        key = read_file(path)
    if key is None or len(key) != KEY_BYTES:
        raise StoreUnavailableError(path=str(path), reason=Text("the key is damaged; restore it"))
    return key


def keyed_digest(key: bytes, tenant_id: str, data: bytes) -> str:
    """Digest of a content of a tenant, 32 hexadecimal characters, useless without the key."""
    own = _key_of(key, tenant_id)
    return hashlib.blake2b(data, key=own, digest_size=DIGEST_BYTES).hexdigest()


@lru_cache(256)
def _key_of(key: bytes, tenant_id: str) -> bytes:
    name = tenant_id.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(name, key=key, digest_size=KEY_BYTES).digest()
