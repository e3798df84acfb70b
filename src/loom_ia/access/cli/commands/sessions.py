"""`loom sessions`: what is done to whole conversations."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from loom_ia.access.cli.session import loom_of, say, show, wait
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from loom_ia.runtime.loom import Loom

HELP = Text("manage conversations")


def configure(parser: ArgumentParser) -> None:
    """What to do, to which session."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    about = str(Text("set damaged journal lines aside, so that their runs go on"))
    repair = actions.add_parser("repair", help=about, description=about)
    repair.add_argument("session_id", metavar="SESSION", help=str(Text("id of the session")))


def run(arguments: Namespace) -> int:
    """Repair a session."""
    return wait(_repair(loom_of(arguments), arguments))


async def _repair(loom: Loom, arguments: Namespace) -> int:
    async with loom:
        lines = await loom.repair(arguments.session_id)
    if not lines:
        say(Text("Nothing to repair in session {session}.", {"session": arguments.session_id}))
    for line in lines:
        show(Text("Line {line} was set aside.", {"line": line}))
    return 0
