"""`loom reject`: refuse a waiting call, then go on with the run."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from loom_ia.access.cli import decision
from loom_ia.core.text import Text

HELP = Text("refuse a waiting call, and go on with the run")


def configure(parser: ArgumentParser) -> None:
    """A run, one of its calls."""
    decision.configure(parser)


def run(arguments: Namespace) -> int:
    """Reject."""
    return decision.decide(arguments, approve=False)
