"""A trace as lines for a person."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal

from loom_ia.core.projections.trace import ModelNode, ToolNode, Trace
from loom_ia.core.text import Text

SHORT = 300
"""Characters of a content before it is shortened."""


def lines(tree: Trace, *, full: bool) -> Iterator[str]:
    """The tree of a run, two spaces a level."""
    result = tree.result
    params: dict[str, object] = {
        "agent": result.agent,
        "status": result.status,
        "ms": _ms(tree.ms),
        "cost": _cost(result.cost),
    }
    yield str(Text("run {agent} — {status}, {ms} ms, {cost}", params))
    for step in tree.steps:
        yield "  " + str(Text("step {number}", {"number": step.number}))
        for node in step.nodes:
            shown = _model(node) if isinstance(node, ModelNode) else _tool(node)
            for depth, line in shown:
                yield "  " * depth + _short(line, full=full)
    if result.error is not None:
        yield "  " + str(Text("failed: {error}", {"error": result.error}))


def _model(node: ModelNode) -> Iterator[tuple[int, str]]:
    usage = node.usage
    tokens = f"{usage.input} → {usage.output}" if usage else str(Text("unknown"))
    params: dict[str, object] = {
        "model": node.model,
        "role": node.role,
        "ms": _ms(node.ms),
        "tokens": tokens,
        "cost": _cost(node.cost),
    }
    if node.status == "lost":
        yield 2, str(Text("model {model} ({role}) — no answer: cut, its cost is unknown", params))
        return
    yield 2, str(Text("model {model} ({role}) — {ms} ms, {tokens} tokens, {cost}", params))
    if node.error:
        yield 3, str(Text("· failed    : {error}", {"error": node.error}))
    if node.text:
        yield 3, str(Text("· answers   : {text}", {"text": node.text}))
    for name, arguments in node.calls:
        call = f"{name}({json.dumps(arguments, ensure_ascii=False)})"
        yield 3, str(Text("· calls     : {call}", {"call": call}))


def _tool(node: ToolNode) -> Iterator[tuple[int, str]]:
    params: dict[str, object] = {"name": node.name, "ms": _ms(node.ms), "status": node.status}
    if node.status == "ok":
        yield 2, str(Text("tool {name} — {ms} ms", params))
    else:
        yield 2, str(Text("tool {name} — {ms} ms, {status}", params))
    arguments = json.dumps(node.arguments, ensure_ascii=False)
    yield 3, str(Text("· arguments : {arguments}", {"arguments": arguments}))
    for decision in node.decisions:
        yield 3, str(Text("· approval  : {decision}", {"decision": decision}))
    if node.result:
        yield 3, str(Text("· result    : {result}", {"result": node.result}))


def _ms(ms: float) -> str:
    return f"{ms:.0f}"


def _cost(cost: Decimal | None) -> str:
    return str(Text("unknown cost")) if cost is None else f"{cost:.6f} $"


def _short(line: str, *, full: bool) -> str:
    if full or len(line) <= SHORT:
        return line
    left = len(line) - SHORT
    return line[:SHORT] + str(Text("… ({left} more characters, --full)", {"left": left}))
