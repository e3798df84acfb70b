"""`loom`: the parser, the language, and what an error becomes for a person."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from loom_ia import locale
from loom_ia.access.cli.colour import paint
from loom_ia.access.cli.contract import Command, MisuseError
from loom_ia.access.cli.streams import close_streams, open_streams, seal
from loom_ia.core.text import Text, translate

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
    "serve",
    "schema",
    "completion",
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


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Leave to the door how it is said."""
        raise MisuseError(self, message)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    open_streams()
    locale.install(os.environ)
    setattr(argparse, "_", translate)  # noqa: B010  a name that argparse keeps to itself
    begun = argparse.Namespace(run_id="")
    try:
        code = _performed(argv, begun)
        sys.stdout.flush()
    except BrokenPipeError:
        code = FAILED
    except KeyboardInterrupt as error:
        code = INTERRUPTED
        _coded(argv, begun, error)
    except Exception as error:  # noqa: BLE001  the border of this door
        code = _told(error)
        _coded(argv, begun, error)
    close_streams()
    if argv is None:
        seal()
    return code


def _coded(argv: Sequence[str] | None, begun: argparse.Namespace, error: BaseException) -> None:
    """Say an error to the program that asked for JSON."""
    words = list(sys.argv[1:] if argv is None else argv)
    if "--json" in words[: words.index("--") if "--" in words else None]:
        from loom_ia.access.cli.faults import document  # noqa: PLC0415

        with suppress(OSError):
            print(document(error, begun.run_id or ""), flush=True)


def _performed(argv: Sequence[str] | None, begun: argparse.Namespace) -> int:
    try:
        arguments = _read(argv, begun)
    except SystemExit as told:  # argparse has said what it had to say
        return int(told.code or 0)
    command: Command = arguments.command
    return command.run(arguments)


def _read(argv: Sequence[str] | None, begun: argparse.Namespace) -> argparse.Namespace:
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what could be typed next
        from loom_ia.access.cli.commands.completion import complete  # noqa: PLC0415

        complete(parser)
    arguments, unknown = parser.parse_known_args(argv, begun)
    if unknown:
        message = translate("unrecognized arguments: %s") % " ".join(unknown)
        if any(word.partition("=")[0] in GLOBAL for word in unknown):
            message += str(Text(" (--config and --profile go before the command)"))
        parser.error(message)
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
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


def _told(error: Exception) -> int:
    """Say an error in one sentence; the exit code that fits it."""
    from loom_ia.core.errors import Kind, LoomError  # noqa: PLC0415

    if isinstance(error, MisuseError):
        return _misused(error)
    if not isinstance(error, LoomError):
        return _unexpected(error)
    label = Text("Configuration: {line}") if error.kind is Kind.CONFIG else Text("Error: {line}")
    for line in str(error).splitlines() or [error.code]:
        _say(paint(Text(label.msgid, {"line": line}), "bad", sys.stderr))
    return FAILED if error.kind in {Kind.BROKEN, Kind.UNAVAILABLE} else USAGE


def _misused(error: MisuseError) -> int:
    parser = error.parser
    said = {"prog": parser.prog, "message": str(error)}
    _say(parser.format_usage() + translate("%(prog)s: error: %(message)s\n") % said, end="")
    return USAGE


def _unexpected(error: Exception) -> int:
    if os.environ.get("LOOM_DEBUG"):
        import traceback  # noqa: PLC0415

        _say("".join(traceback.format_exception(error)).rstrip())
    what = " ".join(f"{type(error).__name__}: {error}".split())
    _say(paint(Text("Error: {what} (LOOM_DEBUG=1 shows where)", {"what": what}), "bad", sys.stderr))
    return FAILED


def _say(text: object, end: str = "\n") -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, end=end, flush=True)


if __name__ == "__main__":
    sys.exit(main())
