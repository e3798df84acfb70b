"""`loom completion`: what a shell loads to complete commands, options and their values."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from types import ModuleType

from loom_ia.access.cli.session import show, show_data
from loom_ia.core.text import Text

HELP = Text("print what a shell loads to complete what is typed")
SHELLS = ("bash", "zsh", "fish")


def configure(parser: ArgumentParser) -> None:
    """Which shell, and how it loads what is printed."""
    parser.add_argument("shell", choices=SHELLS, help=str(Text("the shell")))
    parser.add_argument("--json", action="store_true", help=str(Text("print the script as JSON")))
    parser.epilog = str(
        Text(
            'For this session: eval "$(loom completion bash)" (or zsh), '
            "loom completion fish | source; for every session, add it to ~/.bashrc, ~/.zshrc "
            "or ~/.config/fish/config.fish."
        )
    )


def run(arguments: Namespace) -> int:
    """Print it."""
    script: str = _argcomplete().shellcode(["loom"], shell=arguments.shell)
    if arguments.json:
        show_data({"shell": arguments.shell, "script": script})
    else:
        show(script)
    return 0


def complete(parser: ArgumentParser) -> None:
    """Tell the shell that asks what can be typed next; the process ends there.

    Raises:
        ExtraMissingError: the library is gone; nothing else may be done of a half-typed line.

    """
    _argcomplete().autocomplete(parser)


def _argcomplete() -> ModuleType:
    from importlib import import_module  # noqa: PLC0415

    try:
        return import_module("argcomplete")
    except ImportError as error:
        from loom_ia.config.extras import missing_package  # noqa: PLC0415

        what = Text("Command")
        raise missing_package(what, "completion", "argcomplete") from error
