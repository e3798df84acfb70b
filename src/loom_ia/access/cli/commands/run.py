"""`loom run`: run an agent, and show its answer as it comes if asked."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING

from loom_ia.access.cli.colour import paint
from loom_ia.access.cli.progress import Progress, shown
from loom_ia.access.cli.session import (
    answers,
    ascii_only,
    code,
    command,
    drive,
    loom_of,
    principal,
    printable,
    say,
    show,
    summary,
    told,
)
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from loom_ia.engine.world import Shown
    from loom_ia.runtime.loom import Loom
    from loom_ia.runtime.requests import RunOptions

HELP = Text("run an agent")
_JSON = Text("print the result as JSON; with --stream, one line for each thing that happens")


def configure(parser: ArgumentParser) -> None:
    """An agent, a message."""
    parser.add_argument("agent", help=str(Text("name of the agent")))
    parser.add_argument("message", help=str(Text("what is asked of it")))
    parser.add_argument(
        "--stream", action="store_true", help=str(Text("show the answer as it comes"))
    )
    parser.add_argument(
        "--session", metavar="ID", help=str(Text("conversation that the run continues"))
    )
    parser.add_argument("--json", action="store_true", help=str(_JSON))
    parser.set_defaults(run_id="")


def run(arguments: Namespace) -> int:
    """Run the agent; the exit code says how it ended."""
    try:
        return drive(_run(loom_of(arguments), arguments), arguments)
    except Exception:
        if arguments.run_id:  # what follows says what went wrong; the run was begun, and goes on
            typed = command(arguments, "resume", arguments.run_id)
            say(Text("Resume     : {command}", {"command": typed}))
        raise


async def _run(loom: Loom, arguments: Namespace) -> int:
    if arguments.stream and arguments.json:
        return await _lines(loom, arguments)
    if not arguments.stream:
        return await _quietly(loom, arguments)
    screen = _Screen()
    async with loom:
        async for item in loom.stream(arguments.agent, arguments.message, **_options(arguments)):
            arguments.run_id = item.run_id
            screen.take(item)
        result = await loom.result(arguments.run_id)
    streamed = screen.answer
    screen.end()
    summary(result, arguments)
    if result.text and result.text != streamed:
        show(result.text)
    return code(result)


async def _quietly(loom: Loom, arguments: Namespace) -> int:
    """The result alone; meanwhile, a person reads what goes on."""
    progress = Progress()
    async with shown(progress), loom:
        async for item in loom.stream(arguments.agent, arguments.message, **_options(arguments)):
            arguments.run_id = item.run_id
            _follow(progress, item)
        result = await loom.result(arguments.run_id)
    return told(result, arguments)


def _follow(progress: Progress, item: Shown) -> None:
    payload = getattr(item, "payload", None)
    match item.type:
        case "model.called":
            model = printable(getattr(payload, "model", ""))
            progress.what = Text("the model answers ({model})", {"model": model})
        case "model.responded":
            message = getattr(payload, "message", None)
            names = ", ".join(printable(call.name) for call in message.calls) if message else ""
            progress.what = Text("tools work ({names})", {"names": names})
        case _:
            return


async def _lines(loom: Loom, arguments: Namespace) -> int:
    """Text, events and the result, one JSON object a line, each written as it comes."""
    from loom_ia.core.events import Event  # noqa: PLC0415

    async with loom:
        async for item in loom.stream(arguments.agent, arguments.message, **_options(arguments)):
            arguments.run_id = item.run_id
            _line(json.loads(item.encode() if isinstance(item, Event) else item.model_dump_json()))
        result = await loom.result(arguments.run_id)
    _line({"type": "result", **result.model_dump(mode="json")})
    return code(result)


def _line(value: Mapping[str, object]) -> None:
    show(json.dumps(value, ensure_ascii=ascii_only()))
    answers().flush()


def _options(arguments: Namespace) -> RunOptions:
    return {"by": principal(), "channel": "cli", "session": arguments.session}


class _Screen:
    """What a person sees while the run goes on."""

    def __init__(self) -> None:
        self.answer = ""
        """Text of the present model turn, as far as it was shown."""

    def take(self, item: Shown) -> None:
        """Show one thing."""
        match item.type:
            case "text":
                self.answer += getattr(item, "text", "")
                answers().write(getattr(item, "text", ""))
                answers().flush()
            case "discard":
                self.end()
                say(paint(Text("[what stands above is void]"), "warn", sys.stderr))
            case "model.called":
                self.end()
            case "model.responded":
                self._calls(item)
            case _:
                return

    def _calls(self, item: Shown) -> None:
        message = getattr(getattr(item, "payload", None), "message", None)
        for call in message.calls if message is not None else ():
            self.end()
            given = call.malformed or json.dumps(call.arguments, ensure_ascii=False)
            params = {"name": printable(call.name), "arguments": printable(given)}
            say(paint(Text("[tool] {name}({arguments})", params), "faint", sys.stderr))

    def end(self) -> None:
        """Close the line that the text left open."""
        if self.answer:
            answers().write("\n")
            answers().flush()
        self.answer = ""
