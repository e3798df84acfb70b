"""What `approve` and `reject` share."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, NoReturn

from loom_ia.access.cli.progress import Progress, shown
from loom_ia.access.cli.session import drive, loom_of, principal, told
from loom_ia.core.causes import cause
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from loom_ia.runtime.loom import Loom
    from loom_ia.runtime.requests import DecisionOptions


def configure(parser: ArgumentParser) -> None:
    """A run, and which of its calls."""
    parser.add_argument("run_id", metavar="RUN", help=str(Text("id of the run")))
    parser.add_argument(
        "--call", metavar="ID", help=str(Text("one call; without it, all that wait"))
    )
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help=str(Text("why, for the journal"))
    )
    about = str(Text("say whether a call of unknown outcome acted; nothing is then launched"))
    parser.add_argument("--happened", choices=("yes", "no"), help=about)
    parser.add_argument("--json", action="store_true", help=str(Text("print the result as JSON")))


def decide(arguments: Namespace, *, approve: bool) -> int:
    """Record the decision, go on with the run; the exit code says where it stands."""
    corrected = None
    if approve and arguments.arguments is not None:
        corrected = _read(arguments.arguments)
    loom = loom_of(arguments)
    return drive(_decide(loom, arguments, corrected, approve=approve), arguments)


async def _decide(
    loom: Loom, arguments: Namespace, corrected: dict[str, object] | None, *, approve: bool
) -> int:
    options: DecisionOptions = {
        "call": arguments.call,
        "reason": arguments.reason,
        "channel": "cli",
        "arguments": corrected,
        "happened": None if arguments.happened is None else arguments.happened == "yes",
    }
    async with shown(Progress()), loom:
        act = loom.approve if approve else loom.reject
        result = await act(arguments.run_id, by=principal(), **options)
        if not await loom.drain(within=0):  # another run of the session goes first
            await loom.drain()
            result = await loom.result(arguments.run_id)
    return told(result, arguments)


def _read(given: str) -> dict[str, object]:
    """Arguments typed as JSON, or read from `@file`.

    Raises:
        ArgumentsUnreadableError: neither.

    """
    from pathlib import Path  # noqa: PLC0415

    from loom_ia.runtime.errors import ArgumentsUnreadableError  # noqa: PLC0415

    try:
        text = Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else given
        value: object = json.loads(text, parse_constant=_refused)
    except (OSError, ValueError, RecursionError) as error:
        raise ArgumentsUnreadableError(reason=_reason(error)) from error
    if not isinstance(value, dict):
        raise ArgumentsUnreadableError(reason=Text("not a JSON object"))
    return {str(key): item for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] reason: JSON


def _refused(constant: str) -> NoReturn:
    raise ValueError(constant)


def _reason(error: Exception) -> object:
    match error:
        case OSError():
            return Text("{path}: {reason}", {"path": error.filename, "reason": cause(error)})
        case json.JSONDecodeError():
            place = {"line": error.lineno, "column": error.colno}
            return Text("not JSON (line {line}, column {column})", place)
        case UnicodeDecodeError():
            return Text("not UTF-8 text")
        case _:
            return Text("not JSON ({what})", {"what": ascii(str(error))})
