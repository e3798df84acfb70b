"""Counts the tokens of a request without a tokenizer, at the price of what is new in it."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from loom_ia.core.model.blocks import (
    AnyBlock,
    FileBlock,
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from loom_ia.core.model.spec import ModelRequest, ToolSpec

CHARACTERS = 4
"""Of one token."""
REMEMBERED = 4096
"""Conversations followed at once."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """Characters of the first messages of a conversation, up to `last`."""

    first: Message
    last: Message
    length: int
    characters: int


class Estimate:
    """Estimates input tokens; of a conversation that grew, reads the new messages only."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._conversations: OrderedDict[int, _Counted] = OrderedDict()
        self._tools: tuple[Sequence[ToolSpec], int] = ((), 0)

    def input(self, request: ModelRequest) -> int:
        """Tokens of the system prompt, the messages and the tools."""
        total = (
            len(request.system)
            + len(request.note)
            + self._messages(request.messages)
            + self._specs(request.tools)
        )
        return -(-total // CHARACTERS)

    def _messages(self, messages: Sequence[Message]) -> int:
        length = len(messages)
        if length == 0:
            return 0
        first = messages[0]
        known = self._conversations.pop(id(first), None)
        start, total = 0, 0
        if known is not None and _continues(known, first, messages):
            start, total = known.length, known.characters
        for index in range(start, length):
            total += sum(map(characters, messages[index].blocks))
        self._conversations[id(first)] = _Counted(first, messages[length - 1], length, total)
        if len(self._conversations) > self._remembered:
            self._conversations.popitem(last=False)
        return total

    def _specs(self, tools: Sequence[ToolSpec]) -> int:
        known, total = self._tools
        if known is tools:
            return total
        total = sum(
            len(tool.name) + len(tool.description) + _json(tool.input_schema) for tool in tools
        )
        if tools:  # a last answer has none; the others of its agent come back
            self._tools = tools, total
        return total


def _continues(known: _Counted, first: Message, messages: Sequence[Message]) -> bool:
    return (
        known.first is first
        and known.length <= len(messages)
        and messages[known.length - 1] is known.last
    )


def output_tokens(message: Message) -> int:
    """Tokens of an answer."""
    return -(-sum(map(characters, message.blocks)) // CHARACTERS)


def characters(block: AnyBlock) -> int:
    """Characters that a block takes in a request."""
    match block:
        case TextBlock() | ReasoningBlock():
            return len(block.text)
        case ToolCallBlock():
            return len(block.name) + _json(block.arguments)
        case ToolResultBlock():
            return sum(map(characters, block.content))
        case ImageBlock() | FileBlock():
            return len(block.uri) + len(block.name)
    assert_never(block)


def _json(value: dict[str, object]) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str))
