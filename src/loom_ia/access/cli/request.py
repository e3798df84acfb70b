"""What a model was sent, as lines for a person: all of it, nothing shortened."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from loom_ia.access.cli.session import printable
from loom_ia.core.model import (
    AnyBlock,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSpec,
    text_of,
)
from loom_ia.core.projections.request import SentRequest
from loom_ia.core.text import Text

ROLES = {"user": Text("user"), "assistant": Text("assistant"), "tool": Text("result of tools")}


def lines(request: SentRequest) -> Iterator[str]:
    """The request, part by part, in the order in which a model reads it."""
    params: dict[str, object] = {
        "number": request.number,
        "requests": request.requests,
        "step": request.step,
        "attempt": request.attempt,
        "model": request.model,
        "role": request.role,
        "at": f"{request.at:%Y-%m-%d %H:%M:%S} UTC",
    }
    yield _line(
        0,
        Text(
            "request {number} of {requests} — step {step}, attempt {attempt}, "
            "model {model} ({role}), {at}",
            params,
        ),
    )
    if request.final:
        yield _line(1, Text("a last answer was asked, without tools"))
    if not request.intact:
        yield _line(1, Text("the messages below differ from those that were recorded as sent"))
    yield from _titled(Text("parameters"), [_json(request.params)])
    yield from _titled(Text("system prompt"), [request.system])
    yield from _titled(Text("tools"), map(_tool, request.tools))
    if request.history:
        yield from _messages(Text("earlier runs of the session"), request.history)
    yield from _messages(Text("messages"), request.messages)


def _messages(title: Text, messages: Iterable[Message]) -> Iterator[str]:
    yield _line(1, title)
    for message in messages:
        yield _line(2, ROLES[message.role])
        for block in message.blocks:
            yield from _texts(3, _block(block))


def _titled(title: Text, texts: Iterable[str]) -> Iterator[str]:
    yield _line(1, title)
    for text in texts:
        yield from _texts(2, text)


def _tool(tool: ToolSpec) -> str:
    return f"{tool.name}: {tool.description}\n{_json(tool.input_schema)}"


def _block(block: AnyBlock) -> str:
    match block:
        case TextBlock():
            return block.text
        case ToolCallBlock():
            given = block.malformed if block.malformed is not None else _json(block.arguments)
            return f"{block.name}({given})  [{block.id}]"
        case ToolResultBlock():
            failed = f" ({Text('error')})" if block.is_error else ""
            others = [f"[{b.type} {b.uri}]" for b in block.content if not isinstance(b, TextBlock)]
            told = " ".join(part for part in (text_of(block.content), *others) if part)
            return f"{block.name}{failed}: {told}  [{block.call_id}]"
        case _:
            return f"[{block.type}] {getattr(block, 'text', '') or getattr(block, 'uri', '')}"


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _line(depth: int, text: Text) -> str:
    return "  " * depth + printable(str(text))


def _texts(depth: int, text: str) -> Iterator[str]:
    for line in text.splitlines() or [""]:
        yield ("  " * depth + printable(line)).rstrip()
