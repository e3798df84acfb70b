"""What commands share: an open Loom, who asks, how a result is said."""

from __future__ import annotations

import getpass
import shlex
import sys
from argparse import Namespace
from collections.abc import Coroutine
from typing import TYPE_CHECKING, TypeVar

from loom_ia.core.text import Text

if TYPE_CHECKING:
    from loom_ia.core.projections.view import RunResult
    from loom_ia.runtime.loom import Loom

T = TypeVar("T")
COMPLETED, FAILED, PAUSED = 0, 1, 3
DEFAULT_CONFIG = "loom.yaml"


def loom_of(arguments: Namespace) -> Loom:
    """Loom of the configuration that was named, its logs on standard error."""
    from loom_ia.runtime.loom import Loom  # noqa: PLC0415
    from loom_ia.telemetry import configure_logging  # noqa: PLC0415

    loom = Loom.from_config(arguments.config, profile=arguments.profile)
    logs = loom.config.telemetry.logging
    configure_logging(logs.level, logs.format)
    return loom


def wait(work: Coroutine[object, object, T]) -> T:
    """Result of work that needs an event loop."""
    import asyncio  # noqa: PLC0415

    return asyncio.run(work)


def principal() -> str:
    """Who types: the system user."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return "cli:unknown"


def say(text: object) -> None:
    """One line on standard error, at once."""
    print(text, file=sys.stderr, flush=True)


def show(text: object) -> None:
    """One line on standard output."""
    print(text)


def command(arguments: Namespace, *words: str) -> str:
    """A command that can be typed as it is."""
    own = ("--config", arguments.config) if arguments.config != DEFAULT_CONFIG else ()
    profile = ("--profile", arguments.profile) if arguments.profile else ()
    return shlex.join(("loom", *own, *profile, *words))


def summary(result: RunResult, arguments: Namespace) -> None:
    """Say how a run stands, on standard error."""
    params: dict[str, object] = {
        "status": result.status,
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
        say(Text("Reason     : {error}", {"error": result.error}))
    for asked in result.pending_approvals:
        typed = command(arguments, "approve", result.run_id, "--call", asked.call_id)
        params = {"tool": asked.tool, "call": asked.call_id, "command": typed}
        say(Text("Waiting    : {tool} ({call}) — {command}", params))


def told(result: RunResult, arguments: Namespace) -> int:
    """Say a result: JSON alone, or a summary then the answer; the exit code."""
    if arguments.json:
        show(result.model_dump_json(indent=2))
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
