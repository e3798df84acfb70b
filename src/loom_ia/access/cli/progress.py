"""One line that says what goes on while somebody waits: on a terminal, and gone at the end."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from loom_ia.access.cli.colour import terminal
from loom_ia.core.text import Text

PERIOD: Final = 1.0
"""Seconds before the line appears, and between two of its updates."""


class Progress:
    """What goes on now; whoever works says it, the line follows."""

    def __init__(self) -> None:
        self.what: object = Text("working")

    async def tick(self) -> None:
        """Rewrite the line for ever."""
        import asyncio  # noqa: PLC0415
        from shutil import get_terminal_size  # noqa: PLC0415

        begun = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(PERIOD)
            seconds = asyncio.get_running_loop().time() - begun
            line = f"{seconds:.0f} s · {self.what}"
            # The cursor goes back to the first column, so that a log line written next covers this.
            _write(f"\r\x1b[K{line[: get_terminal_size().columns - 1]}\r")


@asynccontextmanager
async def shown(progress: Progress) -> AsyncGenerator[None]:
    """Show it while this is entered, when a person looks at standard error."""
    if not terminal(sys.stderr):
        yield
        return
    import asyncio  # noqa: PLC0415

    ticking = asyncio.create_task(progress.tick())
    try:
        yield
    finally:
        ticking.cancel()
        _write("\r\x1b[K")


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
