"""`loom resume`: go on with a run where its journal stopped."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import datetime
from typing import TYPE_CHECKING

from loom_ia.access.cli.progress import Progress, shown
from loom_ia.access.cli.session import command, drive, loom_of, principal, say, told
from loom_ia.access.cli.table import instant
from loom_ia.core.errors import RunHeldError
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from loom_ia.core.projections.view import RunResult
    from loom_ia.runtime.loom import Loom

HELP = Text("go on with a run that was cut or failed")
LOOK = 0.5
"""Seconds between two looks at a run that another process drives."""


def configure(parser: ArgumentParser) -> None:
    """A run."""
    parser.add_argument("run_id", metavar="RUN", help=str(Text("id of the run")))
    parser.add_argument(
        "--now", action="store_true", help=str(Text("take it even from a living driver"))
    )
    parser.add_argument("--json", action="store_true", help=str(Text("print the result as JSON")))


def run(arguments: Namespace) -> int:
    """Drive the run to its end or its next wait."""
    return drive(_resume(loom_of(arguments), arguments), arguments)


async def _resume(loom: Loom, arguments: Namespace) -> int:
    async with shown(Progress()), loom:
        result = await _taken(loom, arguments)
    return told(result, arguments)


async def _taken(loom: Loom, arguments: Namespace) -> RunResult:
    """Result of the run, once its living driver has let it go; said each time it keeps it."""
    from asyncio import sleep  # noqa: PLC0415

    until: object = None
    while True:
        try:
            return await loom.resume(
                arguments.run_id, by=principal(), channel="cli", now=arguments.now
            )
        except RunHeldError as error:
            if error.params["until"] != until:
                until = error.params["until"]
                say(_waiting(error, arguments))
            await sleep(LOOK)


def _waiting(error: RunHeldError, arguments: Namespace) -> Text:
    params = {
        "run": arguments.run_id,
        "holder": error.params["holder"],
        "until": instant(datetime.fromisoformat(str(error.params["until"]))),
        "command": command(arguments, "resume", "--now", arguments.run_id),
    }
    return Text(
        "Run {run} is driven by {holder} until {until}: waiting; to take it: {command}", params
    )
