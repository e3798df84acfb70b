"""`loom inspect`: what happened in a run, step by step."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from loom_ia.access.cli.session import loom_of, show, show_json, wait
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from loom_ia.core.projections.trace import TraceRun
    from loom_ia.runtime.loom import Loom

HELP = Text("show what happened in a run")


def configure(parser: ArgumentParser) -> None:
    """A run, and how much of it."""
    parser.add_argument("run_id", metavar="RUN", help=str(Text("id of the run")))
    parser.add_argument("--full", action="store_true", help=str(Text("shorten nothing")))
    parser.add_argument("--json", action="store_true", help=str(Text("print the trace as JSON")))


def run(arguments: Namespace) -> int:
    """Print the tree of the run."""
    from loom_ia.access.cli.tree import lines  # noqa: PLC0415

    tree = wait(_trace(loom_of(arguments), arguments))
    if arguments.json:
        show_json(tree)
        return 0
    for line in lines(tree, full=arguments.full):
        show(line)
    return 0


async def _trace(loom: Loom, arguments: Namespace) -> TraceRun:
    async with loom:
        return await loom.trace(arguments.run_id)
