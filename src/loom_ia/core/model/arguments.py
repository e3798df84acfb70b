"""Arguments of calls as models write them: a JSON object, or what was written instead."""

from __future__ import annotations

import json
from typing import TypeGuard

from loom_ia.core.model.blocks import ToolCallBlock


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """True for a JSON object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[object]]:
    """True for a JSON array."""
    return isinstance(value, list)


def call_of(identifier: str, name: str, written: str) -> ToolCallBlock:
    """A call; nothing written means no arguments, and what is no JSON object never runs."""
    if not written.strip():
        return ToolCallBlock(id=identifier, name=name)
    try:
        # What the model wrote, and nothing else: NaN and Infinity are not JSON.
        value: object = json.loads(written, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return ToolCallBlock(id=identifier, name=name, malformed=written)
    if is_object(value):
        return ToolCallBlock(id=identifier, name=name, arguments=value)
    return ToolCallBlock(id=identifier, name=name, malformed=written)


def _refuse(name: str) -> object:
    raise ValueError(name)


def cut(call: ToolCallBlock) -> ToolCallBlock:
    """A call of an answer that was cut: even when it looks whole, it never runs."""
    if call.malformed is not None:
        return call
    written = json.dumps(call.arguments, ensure_ascii=False)
    return call.model_copy(update={"arguments": {}, "malformed": written})
