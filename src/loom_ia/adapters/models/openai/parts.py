"""What both APIs of OpenAI share: system text, counts of tokens, native schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping

from loom_ia.adapters.models.exchange import tokens
from loom_ia.core.model import ModelRequest, Usage
from loom_ia.core.model.arguments import is_object
from loom_ia.core.model.dialects import restored

Json = dict[str, object]


def inner(value: Mapping[str, object], name: str) -> Json:
    """An object inside another; empty when there is none."""
    found = value.get(name)
    return found if is_object(found) else {}


def system_of(request: ModelRequest) -> str:
    """What the model is told before the conversation."""
    return f"{request.system}\n\n{request.note}".strip()


def usage_of(usage: Mapping[str, object], names: tuple[str, str]) -> Usage | None:
    """Tokens, cached ones apart from the input; None when they are missing or impossible."""
    incoming, outgoing = names
    given, output = tokens(usage, f"{incoming}_tokens"), tokens(usage, f"{outgoing}_tokens")
    cached = tokens(inner(usage, f"{incoming}_tokens_details"), "cached_tokens") or 0
    reasoning = tokens(inner(usage, f"{outgoing}_tokens_details"), "reasoning_tokens") or 0
    if given is None or output is None or min(given, output, cached) < 0 or cached > given:
        return None
    if not given + output:
        return None
    return Usage(
        input=given - cached,
        output=output,
        cache_read=cached,
        reasoning=min(max(reasoning, 0), output),
    )


def meant(text: str, schema: Mapping[str, object] | None) -> str:
    """The text of an answer held to a schema, without the nulls that stand for what is absent."""
    if schema is None:
        return text
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    whole = restored(value, dict(schema))
    return text if whole == value else json.dumps(whole, ensure_ascii=False)
