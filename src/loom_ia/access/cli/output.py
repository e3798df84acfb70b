"""Where a command writes bytes: standard output, or a file that is whole or absent."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from loom_ia.access.cli.session import answers
from loom_ia.core.causes import cause
from loom_ia.core.errors import Kind, LoomError


class OutputError(LoomError):
    """The file that was asked for cannot be written."""

    kind = Kind.UNAVAILABLE
    template = "{path}: {reason}; nothing was written there"


@contextmanager
def target(name: str | None) -> Generator[Callable[[bytes], object]]:
    """What takes the bytes. A file gets its name once everything is in it, for its owner only.

    Raises:
        OutputError: the file cannot be written; what was there is as it was.

    """
    if name is None:
        stream = answers()
        stream.flush()
        yield stream.buffer.write
        return
    path = Path(name)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as file:
            yield file.write
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise OutputError(path=name, reason=cause(error)) from error
    finally:
        draft.unlink(missing_ok=True)
