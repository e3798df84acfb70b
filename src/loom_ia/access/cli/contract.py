"""What a command module offers, and how the parser refuses what was typed."""

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


class MisuseError(Exception):
    """What argparse refuses, and the parser that refused it."""

    def __init__(self, parser: argparse.ArgumentParser, message: str) -> None:
        super().__init__(message)
        self.parser = parser
