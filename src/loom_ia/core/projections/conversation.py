"""Messages as any backend takes them: what no server accepts is settled here, once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loom_ia.core.model import (
    AnyBlock,
    Message,
    ModelRequest,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSpec,
    user,
)
from loom_ia.core.model.arguments import is_object
from loom_ia.core.wording import Language, say

THOUGHTS = frozenset({"reasoning", "redacted_thinking"})
"""Opaque blocks that are thought, not work."""


@dataclass(frozen=True, slots=True)
class Backend:
    """What differs between backends."""

    origin: str
    """Reasoning of another origin is left out; empty leaves out all of it."""
    language: Language = "fr"
    last_assistant: bool = False
    """It goes on from an answer that it paused itself."""


def conversation(messages: Sequence[Message], backend: Backend) -> list[Message]:
    """Messages where every call has one result, no block is blank and roles alternate.

    Reasoning stays only behind the last word of the user, in the loop of tools that needs it, and
    never alone. A call whose result is nowhere gets one that says so; a result whose call is
    nowhere is left out.
    """
    loop = max((n for n, m in enumerate(messages) if m.role == "user"), default=-1)
    kept: list[Message] = []
    for index, message in enumerate(messages):
        origin = backend.origin if index > loop else ""
        blocks = tuple(_kept(message.blocks, origin))
        if message.role == "tool":
            continue  # told with the calls they answer
        last = index == len(messages) - 1
        resumed = backend.last_assistant and last and _paused(blocks)
        if not resumed and all(isinstance(block, ReasoningBlock) for block in blocks):
            continue
        _join(kept, Message(role=message.role, blocks=blocks))
        if message.calls:
            _join(kept, _results(messages, index, backend.language))
    return _ended(kept, backend)


def callable_tools(request: ModelRequest) -> Sequence[ToolSpec]:
    """Tools that a request declares; a conversation that holds calls has some, as servers want.

    Those that only its past names are declared by their name: they cannot be called.
    """
    declared = request.tools or request.declared
    if declared:
        return declared
    names = dict.fromkeys(call.name for message in request.messages for call in message.calls)
    schema: dict[str, object] = {"type": "object", "properties": {}}
    return [ToolSpec(name=name, description="", input_schema=schema) for name in names]


def _kept(blocks: Sequence[AnyBlock], origin: str) -> Iterator[AnyBlock]:
    for block in blocks:
        match block:
            case TextBlock():
                if block.text.strip():
                    yield block
            case ReasoningBlock():
                if origin and block.provider == origin:
                    yield block
            case _:
                yield block


def _results(messages: Sequence[Message], index: int, language: Language) -> Message:
    """One result for each call of a message, in their order: those before the next answer."""
    found: dict[str, ToolResultBlock] = {}
    for message in messages[index + 1 :]:
        if message.role == "assistant":
            break
        for block in message.blocks:
            if isinstance(block, ToolResultBlock):
                found.setdefault(block.call_id, block)
    calls = messages[index].calls
    results = tuple(
        [_said(found.get(call.id) or _lost(call, language), language) for call in calls]
    )
    return Message(role="tool", blocks=results)


def _said(result: ToolResultBlock, language: Language) -> ToolResultBlock:
    """The result without blank text, which some servers refuse; one that says nothing says so."""
    blank = [b for b in result.content if isinstance(b, TextBlock) and not b.text.strip()]
    if result.content and not blank:
        return result
    content = tuple([b for b in result.content if b not in blank])
    content = content or (TextBlock(text=say(language, "empty")),)
    return result.model_copy(update={"content": content})


def _lost(call: ToolCallBlock, language: Language) -> ToolResultBlock:
    text = TextBlock(text=say(language, "interrupted"))
    return ToolResultBlock(call_id=call.id, name=call.name, content=(text,), is_error=True)


def _join(kept: list[Message], message: Message) -> None:
    if kept and kept[-1].role == message.role and not kept[-1].calls:
        blocks = (*kept.pop().blocks, *message.blocks)
        message = Message(role=message.role, blocks=blocks)
    kept.append(message)


def _ended(kept: list[Message], backend: Backend) -> list[Message]:
    go_on = user(say(backend.language, "go_on"))
    if not kept or kept[0].role != "user":
        kept.insert(0, go_on)
    paused = backend.last_assistant and _paused(kept[-1].blocks)
    if kept[-1].role == "assistant" and not paused:
        kept.append(go_on)
    return kept


def _paused(blocks: Sequence[AnyBlock]) -> bool:
    """True for an answer that ends in work of the provider's own, which it will take up again."""
    last = blocks[-1] if blocks else None
    if not isinstance(last, ReasoningBlock) or not last.opaque.startswith("{"):
        return False
    kept: object = json.loads(last.opaque)
    return is_object(kept) and kept.get("type") not in THOUGHTS
