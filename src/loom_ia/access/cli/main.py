"""`loom`: the parser, the language, and what an error becomes for a person."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn

from loom_ia import locale
from loom_ia.core.text import Text, translate

if TYPE_CHECKING:
    from loom_ia.access.cli.contract import Command

COMMANDS = (
    "validate",
    "run",
    "resume",
    "approve",
    "reject",
    "inspect",
    "sessions",
    "schema",
)
USAGE = 2
INTERRUPTED = 130

ARGPARSE = (
    Text("usage: "),
    Text("options"),
    Text("positional arguments"),
    Text("show this help message and exit"),
    Text("show program's version number and exit"),
    Text("expected one argument"),
    Text("the following arguments are required: %s"),
    Text("unrecognized arguments: %s"),
    Text("argument %(argument_name)s: %(message)s"),
    Text("invalid choice: %(value)r (choose from %(choices)s)"),
    Text("%(prog)s: error: %(message)s\n"),
)
"""What argparse itself says: it looks these up through `_`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    locale.install(os.environ)
    _speak_utf8()
    setattr(argparse, "_", translate)  # noqa: B010  a name that argparse keeps to itself
    arguments = _parser().parse_args(argv)
    command: Command = arguments.command
    try:
        code = command.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  the border of this door
        return _told(error)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="loom", description=str(Text("Run and follow AI agents whose runs are their journal."))
    )
    parser.add_argument("--version", action=_Version)
    parser.add_argument(
        "--config", default="loom.yaml", metavar="FILE", help=str(Text("configuration (loom.yaml)"))
    )
    parser.add_argument("--profile", metavar="NAME", help=str(Text("active profile: dev or prod")))
    title = str(Text("commands"))
    commands = parser.add_subparsers(title=title, metavar="COMMAND", required=True)
    for name in COMMANDS:
        module: Command = import_module(f"loom_ia.access.cli.commands.{name}")  # pyright: ignore[reportAssignmentType] reason: a module is its protocol
        help_text = str(module.HELP)
        parsed = commands.add_parser(name, help=help_text, description=help_text)
        module.configure(parsed)
        parsed.set_defaults(command=module)
    return parser


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        about = str(Text("show program's version number and exit"))
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=about)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print the version of what is installed."""
        from importlib.metadata import version  # noqa: PLC0415

        print(f"loom-ia {version('loom-ia')}")
        parser.exit()


def _speak_utf8() -> None:
    """Never fail on a character that the terminal cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace", encoding="utf-8")


def _told(error: Exception) -> int:
    from loom_ia.core.errors import Kind, LoomError  # noqa: PLC0415

    sys.stdout.flush()
    if not isinstance(error, LoomError):
        if os.environ.get("LOOM_DEBUG"):
            raise error
        what = f"{type(error).__name__}: {error}"
        text = Text("Error: {what} (LOOM_DEBUG=1 shows where)", {"what": what})
        print(text, file=sys.stderr)
        return 1
    label = Text("Configuration: {line}") if error.kind is Kind.CONFIG else Text("Error: {line}")
    for line in str(error).splitlines() or [error.code]:
        print(Text(label.msgid, {"line": line}), file=sys.stderr)
    return 1 if error.kind in {Kind.BROKEN, Kind.UNAVAILABLE} else USAGE


if __name__ == "__main__":
    sys.exit(main())
