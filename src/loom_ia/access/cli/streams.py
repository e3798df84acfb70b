"""The standard streams: fit for any text, and an output that holds answers alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout, suppress
from io import TextIOWrapper
from typing import TextIO

OUT, ERR = 1, 2


def open_streams() -> None:
    """Make the streams fit for any text: no character fails, and a closed one swallows.

    A closed descriptor would otherwise go to the next file opened: a journal, that tools print to.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def close_streams() -> None:
    """Write what is left; where nobody reads any longer, leave nothing for the end to fail on."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def seal() -> None:
    """Send to standard error what a project still writes on standard output as the process ends."""
    if _described(sys.stdout) == OUT:
        with suppress(OSError):
            os.dup2(ERR, OUT)


@contextmanager
def apart() -> Generator[TextIO]:
    """Stream of the answers. What the project writes meanwhile goes to standard error, be it
    printed in Python or written on descriptor 1: by C code, by a child process.
    """
    out = sys.stdout
    if _described(out) != OUT:  # a caller has put another stream there
        with redirect_stdout(sys.stderr):
            yield out
        return
    out.flush()
    kept = os.dup(OUT)
    os.dup2(ERR, OUT)
    buffering = 1 if out.isatty() else -1
    answers = open(kept, "w", buffering, out.encoding, out.errors, closefd=False)  # noqa: SIM115
    try:
        with redirect_stdout(sys.stderr):
            yield answers
        answers.flush()
    finally:
        with suppress(OSError):
            out.flush()  # what was written through `sys.__stdout__`
        os.dup2(kept, OUT)
        _drop(answers)
        os.close(kept)


def _drop(stream: TextIO) -> None:
    """Close a stream that may have nobody to read what it still holds."""
    with suppress(OSError):
        stream.close()


def _described(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None
