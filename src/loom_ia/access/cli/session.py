"""What commands share: an open Loom, who asks, how a result is said."""

from __future__ import annotations

import json
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Coroutine, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, TextIO, TypeVar

from loom_ia.access.cli.colour import paint, style_of
from loom_ia.access.cli.streams import apart
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from pydantic import BaseModel

    from loom_ia.core.projections.view import RunResult
    from loom_ia.runtime.loom import Loom

T = TypeVar("T")
COMPLETED, FAILED, PAUSED = 0, 1, 3
DEFAULT_CONFIG = "loom.yaml"
_ANSWERS: ContextVar[TextIO | None] = ContextVar("answers", default=None)


def loom_of(arguments: Namespace) -> Loom:
    """Loom of the configuration that was named, its logs on standard error."""
    from loom_ia.access import Loom  # noqa: PLC0415
    from loom_ia.telemetry import configure_logging  # noqa: PLC0415

    loom = Loom.from_config(arguments.config, profile=arguments.profile)
    logs = loom.config.telemetry.logging
    configure_logging(logs.level, logs.format)
    return loom


def wait(work: Coroutine[object, object, T]) -> T:
    """Result of work that needs an event loop.

    What the project prints goes to standard error: standard output is for the answer alone.
    """
    import asyncio  # noqa: PLC0415

    with apart() as stream:
        before = _ANSWERS.set(stream)
        try:
            return asyncio.run(work)
        finally:
            _ANSWERS.reset(before)


def drive(work: Coroutine[object, object, int], arguments: Namespace) -> int:
    """Exit code of work that drives the run `arguments.run_id`; interrupted, say how to go on."""
    try:
        return wait(work)
    except KeyboardInterrupt:
        if arguments.run_id:
            typed = command(arguments, "resume", arguments.run_id)
            say(Text("Interrupted; to go on: {command}", {"command": typed}))
        raise


def answers() -> TextIO:
    """Where answers go: standard output, whatever tools were given in its place."""
    return _ANSWERS.get() or sys.stdout


def principal() -> str:
    """Who types: the user that the system knows, whatever the environment pretends."""
    uid = os.getuid()
    try:
        import pwd  # noqa: PLC0415

        return f"cli:{pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"cli:{uid}"


def say(text: object) -> None:
    """One line on standard error, at once."""
    print(text, file=sys.stderr, flush=True)


def show(text: object) -> None:
    """One line on standard output."""
    print(text, file=answers())


def show_json(value: BaseModel) -> None:
    """A value as JSON."""
    show(value.model_dump_json(indent=2, ensure_ascii=ascii_only()))


def show_data(value: Mapping[str, object]) -> None:
    """Plain data as JSON."""
    show(json.dumps(value, ensure_ascii=ascii_only(), indent=2))


def ascii_only() -> bool:
    """Tell whether JSON has to escape what standard output might not be able to write."""
    return (answers().encoding or "").lower().replace("-", "") != "utf8"


def printable(text: str) -> str:
    """One line of text that no terminal obeys: what is not printable is written as its code."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or _spaced(c) else ascii(c)[1:-1] for c in text)


def _spaced(character: str) -> bool:
    """Spaces of French and other texts, that Python counts among what is not printable."""
    return character.isspace() and character > "\x9f" and character not in "\u2028\u2029"


def command(arguments: Namespace, *words: str) -> str:
    """A command that can be typed as it is."""
    own = ("--config", arguments.config) if arguments.config != DEFAULT_CONFIG else ()
    profile = ("--profile", arguments.profile) if arguments.profile else ()
    return shlex.join(("loom", *own, *profile, *words))


def summary(result: RunResult, arguments: Namespace) -> None:
    """Say how a run stands, on standard error."""
    params: dict[str, object] = {
        "status": paint(result.status, style_of(result.status), sys.stderr),
        "iterations": result.iterations,
        "input": result.usage.input,
        "output": result.usage.output,
        "cost": Text("unknown") if result.cost is None else f"{result.cost:.4f} $",
    }
    say(
        Text(
            "Status     : {status} · iterations: {iterations} · "
            "tokens: {input}/{output} · cost: {cost}",
            params,
        )
    )
    say(Text("Run        : {run_id}", {"run_id": result.run_id}))
    if result.error is not None:
        line = Text("Error      : {error}", {"error": printable(result.error)})
        say(paint(line, "bad", sys.stderr))
    if result.resumable:
        typed = command(arguments, "resume", result.run_id)
        say(Text("Resume     : {command}", {"command": typed}))
    for asked in result.pending_approvals:
        typed = command(arguments, "approve", result.run_id, "--call", asked.call_id)
        params = {"tool": asked.tool, "call": asked.call_id, "command": typed}
        say(Text("Waiting    : {tool} ({call}) — {command}", params))


def told(result: RunResult, arguments: Namespace) -> int:
    """Say a result: JSON alone, or a summary then the answer; the exit code."""
    if arguments.json:
        show_json(result)
    else:
        summary(result, arguments)
        if result.text:
            show(result.text)
    return code(result)


def code(result: RunResult) -> int:
    """Exit code of a result."""
    if result.status == "completed":
        return COMPLETED
    return FAILED if result.status in {"failed", "cancelled"} else PAUSED
