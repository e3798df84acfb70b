"""`loom inspect`: what happened in a run, step by step."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from loom_ia.access.cli.session import loom_of, show, show_json, wait
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from loom_ia.runtime.loom import Loom

HELP = Text("show what happened in a run")


def configure(parser: ArgumentParser) -> None:
    """A run, and how much of it."""
    parser.add_argument("run_id", metavar="RUN", help=str(Text("id of the run")))
    parser.add_argument("--full", action="store_true", help=str(Text("shorten nothing")))
    about = str(Text("what the model was sent at its n-th call, attempts included"))
    parser.add_argument("--request", type=int, metavar="N", help=about)
    parser.add_argument("--json", action="store_true", help=str(Text("print the trace as JSON")))


def run(arguments: Namespace) -> int:
    """Print the tree of the run, or one of its requests."""
    show_found = _trace if arguments.request is None else _request
    wait(show_found(loom_of(arguments), arguments))
    return 0


async def _trace(loom: Loom, arguments: Namespace) -> None:
    from loom_ia.access.cli.tree import lines  # noqa: PLC0415

    async with loom:
        tree = await loom.trace(arguments.run_id)
    if arguments.json:
        show_json(tree)
        return
    for line in lines(tree, full=arguments.full):
        show(line)


async def _request(loom: Loom, arguments: Namespace) -> None:
    from loom_ia.access.cli.request import lines  # noqa: PLC0415

    async with loom:
        request = await loom.request(arguments.run_id, arguments.request)
    if arguments.json:
        show_json(request)
        return
    for line in lines(request):
        show(line)
