"""`loom`: the parser, the language, and what an error becomes for a person."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn

from loom_ia import locale
from loom_ia.core.text import Text, translate

if TYPE_CHECKING:
    from loom_ia.access.cli.contract import Command

COMMANDS = (
    "init",
    "validate",
    "run",
    "resume",
    "approve",
    "reject",
    "inspect",
    "report",
    "sessions",
    "schema",
)
FAILED = 1
USAGE = 2
INTERRUPTED = 130

ARGPARSE = (
    Text("usage: "),
    Text("options"),
    Text("positional arguments"),
    Text("show this help message and exit"),
    Text("show program's version number and exit"),
    Text("expected one argument"),
    Text("invalid %(type)s value: %(value)r"),
    Text("ignored explicit argument %r"),
    Text("the following arguments are required: %s"),
    Text("unrecognized arguments: %s"),
    Text("argument %(argument_name)s: %(message)s"),
    Text("invalid choice: %(value)r (choose from %(choices)s)"),
    Text("%(prog)s: error: %(message)s\n"),
)
"""What argparse itself says: it looks these up through `_`."""
GLOBAL = ("--config", "--profile")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    _open_streams()
    locale.install(os.environ)
    setattr(argparse, "_", translate)  # noqa: B010  a name that argparse keeps to itself
    try:
        code = _performed(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        code = FAILED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001  the border of this door
        code = _told(error)
    _close_streams()
    return code


def _performed(argv: Sequence[str] | None) -> int:
    try:
        arguments = _read(argv)
    except SystemExit as told:  # argparse has said what it had to say
        return int(told.code or 0)
    command: Command = arguments.command
    return command.run(arguments)


def _read(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _parser()
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        message = translate("unrecognized arguments: %s") % " ".join(unknown)
        if any(word.partition("=")[0] in GLOBAL for word in unknown):
            message += str(Text(" (--config and --profile go before the command)"))
        parser.error(message)
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="loom",
        description=str(Text("Run and follow AI agents whose runs are their journal.")),
        epilog=str(
            Text(
                "Exit codes: 0 completed, 1 failed or cancelled, "
                "2 wrong usage or configuration, 3 paused."
            )
        ),
        allow_abbrev=False,
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
        parsed = commands.add_parser(
            name, help=help_text, description=help_text, allow_abbrev=False
        )
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


def _open_streams() -> None:
    """Make the streams fit for any text: no character fails, and a closed one swallows.

    A closed descriptor would otherwise go to the next file opened: a journal, that tools print to.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _close_streams() -> None:
    """Write what is left; where nobody reads any longer, leave nothing for the end to fail on."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _told(error: Exception) -> int:
    """Say an error in one sentence; the exit code that fits it."""
    from loom_ia.core.errors import Kind, LoomError  # noqa: PLC0415

    if not isinstance(error, LoomError):
        return _unexpected(error)
    label = Text("Configuration: {line}") if error.kind is Kind.CONFIG else Text("Error: {line}")
    for line in str(error).splitlines() or [error.code]:
        _say(Text(label.msgid, {"line": line}))
    return FAILED if error.kind in {Kind.BROKEN, Kind.UNAVAILABLE} else USAGE


def _unexpected(error: Exception) -> int:
    if os.environ.get("LOOM_DEBUG"):
        import traceback  # noqa: PLC0415

        _say("".join(traceback.format_exception(error)).rstrip())
    what = " ".join(f"{type(error).__name__}: {error}".split())
    _say(Text("Error: {what} (LOOM_DEBUG=1 shows where)", {"what": what}))
    return FAILED


def _say(text: object) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
