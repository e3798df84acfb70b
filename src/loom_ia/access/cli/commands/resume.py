"""`loom resume`: go on with a run where its journal stopped."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from loom_ia.access.cli.progress import Progress, shown
from loom_ia.access.cli.session import drive, loom_of, principal, told
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from loom_ia.runtime.loom import Loom

HELP = Text("go on with a run that was cut or failed")


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
        result = await loom.resume(
            arguments.run_id, by=principal(), channel="cli", now=arguments.now
        )
    return told(result, arguments)
