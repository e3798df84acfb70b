"""What a command module offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import argparse

    from loom_ia.core.text import Text


class Command(Protocol):
    """A module of `commands`; importing it is light, running it may be heavy."""

    HELP: Text

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare its options."""
        ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; the exit code."""
        ...
