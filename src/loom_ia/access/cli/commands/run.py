"""`loom run`: run an agent, and show its answer as it comes if asked."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from loom_ia.access.cli.session import (
    code,
    command,
    loom_of,
    principal,
    say,
    show,
    summary,
    told,
    wait,
)
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from loom_ia.engine.world import Shown
    from loom_ia.runtime.loom import Loom
    from loom_ia.runtime.requests import RunOptions

HELP = Text("run an agent")


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
    parser.add_argument("--json", action="store_true", help=str(Text("print the result as JSON")))


def run(arguments: Namespace) -> int:
    """Run the agent; the exit code says how it ended."""
    screen = _Screen(stream=arguments.stream and not arguments.json)
    try:
        return wait(_run(loom_of(arguments), arguments, screen))
    except KeyboardInterrupt:
        if screen.run_id:
            typed = command(arguments, "resume", screen.run_id)
            say(Text("Interrupted; to go on: {command}", {"command": typed}))
        raise


async def _run(loom: Loom, arguments: Namespace, screen: _Screen) -> int:
    options: RunOptions = {"by": principal(), "channel": "cli", "session": arguments.session}
    async with loom:
        async for item in loom.stream(arguments.agent, arguments.message, **options):
            screen.take(item)
        result = await loom.result(screen.run_id)
    if not screen.stream:
        return told(result, arguments)
    shown = screen.answer
    screen.end()
    summary(result, arguments)
    if result.text and result.text != shown:
        show(result.text)
    return code(result)


class _Screen:
    """What a person sees while the run goes on."""

    def __init__(self, *, stream: bool) -> None:
        self.stream = stream
        self.run_id = ""
        self.answer = ""
        """Text of the present model turn, as far as it was shown."""

    def take(self, item: Shown) -> None:
        """Show one thing."""
        self.run_id = self.run_id or item.run_id
        if not self.stream:
            return
        match item.type:
            case "text":
                self.answer += getattr(item, "text", "")
                sys.stdout.write(getattr(item, "text", ""))
                sys.stdout.flush()
            case "discard":
                self.end()
                say(Text("[what stands above is void]"))
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
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            say(Text("[tool] {name}({arguments})", {"name": call.name, "arguments": arguments}))

    def end(self) -> None:
        """Close the line that the text left open."""
        if self.answer:
            sys.stdout.write("\n")
            sys.stdout.flush()
        self.answer = ""
