"""`loom approve`: let a waiting call leave, then go on with the run."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from loom_ia.access.cli import decision
from loom_ia.core.text import Text

HELP = Text("let a waiting call leave, and go on with the run")


def configure(parser: ArgumentParser) -> None:
    """A run, one of its calls, corrected arguments."""
    decision.configure(parser)
    about = str(Text("corrected arguments, as JSON or @file"))
    parser.add_argument("--arguments", metavar="JSON", help=about)


def run(arguments: Namespace) -> int:
    """Approve."""
    return decision.decide(arguments, approve=True)
