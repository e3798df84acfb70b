"""A trace as lines for a person."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal

from loom_ia.access.cli.colour import Style, paint, style_of
from loom_ia.access.cli.session import answers, printable
from loom_ia.access.cli.table import instant
from loom_ia.core.projections.calls import CallNode, CheckNode, Question
from loom_ia.core.projections.trace import ModelNode, Note, TraceRun
from loom_ia.core.text import Text

SHORT = 300
"""Characters of a content before it is shortened."""

STATES = {
    "asked": Text("not launched"),
    "waiting": Text("waits for a decision"),
    "started": Text("running, or cut"),
    "error": Text("error"),
    "refused": Text("refused"),
    "unknown": Text("outcome unknown"),
}
STYLES: Mapping[str, Style] = {
    "waiting": "warn",
    "error": "bad",
    "refused": "bad",
    "unknown": "warn",
}
DOUBTS = {
    "timeout": Text("it did not answer in time"),
    "cancelled": Text("it was stopped while it ran"),
    "crash": Text("the process died while it ran"),
    "lease_lost": Text("another process took the run while it ran"),
    "exception": Text("it failed without saying whether it had acted"),
}
WHYS = {
    "declared": Text("the tool declares it"),
    "policy": Text("a policy wants it"),
    "unknown": Text("nobody knows whether it acted"),
    "changed": Text("the tool changed since"),
}
DECISIONS = {
    "replace": Text("replaced"),
    "repair": Text("to correct"),
    "deny": Text("refused"),
    "pause": Text("a human must decide"),
    "stop": Text("stopped"),
    "fail": Text("failed the run"),
    "continue": Text("accepted"),
}
NOTES = {
    "crashed": Text("{at}: the previous driver had died, the run was taken over"),
    "resumed": Text("{at}: resumed by {by}"),
    "cancel_requested": Text("{at}: cancellation asked by {by}"),
    "config_changed": Text("{at}: the configuration had changed ({detail})"),
    "budget_exceeded": Text("{at}: budget exceeded ({detail})"),
    "quarantined": Text("{at}: a damaged line was set aside ({detail})"),
}


def lines(tree: TraceRun, *, full: bool) -> Iterator[str]:
    """The tree of a run, two spaces a level."""
    result = tree.result
    params: dict[str, object] = {
        "agent": result.agent,
        "status": result.status,
        "time": duration(tree.ms),
        "cost": _cost(result.cost),
    }
    head = Text("run {agent} — {status}, {time}, {cost}", params)
    yield _line(0, head, style_of(result.status))
    for step in tree.steps:
        yield _line(1, Text("step {number}", {"number": step.number}))
        for node in step.nodes:
            yield from _node(node, full=full)
    for note in tree.notes:
        yield _line(1, _note(note))
    if result.error is not None:
        failed = Text("failed: {error}", {"error": _short(result.error, full=full)})
        yield _line(1, failed, "bad")


def _node(node: ModelNode | CallNode | CheckNode, *, full: bool) -> Iterator[str]:
    match node:
        case ModelNode():
            yield from _model(node, full=full)
        case CallNode():
            yield from _tool(node, full=full)
        case CheckNode():
            yield _line(2, _said(node))
            yield from _details(node, full=full)


def _said(node: CheckNode) -> Text:
    values: dict[str, object] = {"name": node.name, "point": node.point, "said": _verdict(node)}
    if node.point:
        return Text("policy {name} ({point}) — {said}", values)
    if node.scores or node.skipped:
        return Text("judge {name} — {said}", values)
    return Text("check {name} — {said}", values)


def _verdict(node: CheckNode) -> Text:
    if node.skipped:
        return Text("skipped")
    if node.decision:
        return DECISIONS[node.decision]
    if node.changed and node.accepted:
        return Text("accepted, once put in form")
    return Text("accepted") if node.accepted else Text("refused")


def _details(node: CheckNode, *, full: bool) -> Iterator[str]:
    if node.skipped:
        yield _part(Text("why"), node.skipped, full=full)
    if node.scores:
        scores = ", ".join(f"{name} {score:g}" for name, score in node.scores.items())
        yield _part(Text("scores"), scores, full=full)
    if node.diagnosis:
        yield _part(Text("diagnosis"), node.diagnosis, full=full)


def duration(ms: float) -> str:
    """Milliseconds as people read them: 80 ms, 12.5 s, 3 min 20 s, 2 h 05 min."""
    if ms < 10_000:  # noqa: PLR2004  ten seconds
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:  # noqa: PLR2004  one minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:  # noqa: PLR2004  one hour
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def _model(node: ModelNode, *, full: bool) -> Iterator[str]:
    usage = node.usage
    params: dict[str, object] = {
        "model": node.model,
        "role": node.role,
        "time": duration(node.ms),
        "input": usage.input if usage else 0,
        "output": usage.output if usage else 0,
        "cost": _cost(node.cost),
    }
    if node.status == "started":
        yield _line(2, Text("model {model} ({role}) — no answer yet", params))
    elif node.status == "lost":
        yield _line(
            2, Text("model {model} ({role}) — cut before its answer, unknown cost", params), "warn"
        )
    elif usage is None:
        yield _line(2, Text("model {model} ({role}) — {time}, unknown tokens, {cost}", params))
    else:
        yield _line(
            2,
            Text("model {model} ({role}) — {time}, {input} → {output} tokens, {cost}", params),
        )
    if node.error:
        yield _part(Text("failed"), node.error, full=full)
    if node.text:
        yield _part(Text("answers"), node.text, full=full)
    for call in node.calls:
        arguments = _json(call.arguments) if call.malformed is None else call.malformed
        yield _part(Text("calls"), f"{call.name}({arguments})", full=full)
    if node.not_executed:
        yield _part(Text("refused"), node.not_executed, full=full)


def _tool(node: CallNode, *, full: bool) -> Iterator[str]:
    params: dict[str, object] = {"name": node.name, "time": duration(node.ms)}
    if node.status == "ok":
        yield _line(2, Text("tool {name} — {time}", params))
    elif not node.ms:
        text = Text("tool {name} — {state}", {**params, "state": STATES[node.status]})
        yield _line(2, text, STYLES.get(node.status))
    else:
        params["state"] = STATES[node.status]
        yield _line(2, Text("tool {name} — {time}, {state}", params), STYLES.get(node.status))
    yield _part(Text("arguments"), _json(node.arguments), full=full)
    for said in node.checks:
        yield _part(Text("checked"), f"{said.name} — {_verdict(said)}", full=full)
        if said.diagnosis:
            yield _part(Text("diagnosis"), said.diagnosis, full=full)
    for question in node.questions:
        yield from _question(question, full=full)
    if node.launches > 1:
        yield _part(Text("launches"), str(node.launches), full=full)
    if node.doubt:
        yield _part(Text("doubt"), _doubt(node), full=full)
    if node.result:
        yield from _result(node, full=full)


def _result(node: CallNode, *, full: bool) -> Iterator[str]:
    failed = node.status in {"error", "refused", "unknown"}
    label = Text("told") if failed and not node.late else Text("result")
    yield _part(label, node.result, full=full)
    if node.recalled:
        yield _part(Text("recalled"), _recalled(node), full=full)
    if node.late:
        yield _part(Text("late"), str(Text("it came when nobody waited any longer")), full=full)


def _recalled(node: CallNode) -> str:
    run, _, call = node.recalled.rpartition("/")
    params: dict[str, object] = {"call": call, "run": run}
    return str(Text("kept under its idempotency key, from call {call} of run {run}", params))


def _doubt(node: CallNode) -> str:
    why = str(DOUBTS.get(node.doubt, node.doubt))
    parts = [f"{why} — {node.detail}" if node.detail else why]
    if node.still_running:
        parts.append(str(Text("it may still be running")))
    return ", ".join(parts)


def _question(question: Question, *, full: bool) -> Iterator[str]:
    if question.asked_at is not None:
        why: dict[str, object] = {"at": instant(question.asked_at), "why": WHYS[question.why]}
        yield _part(Text("asked"), str(Text("{at}, {why}", why)), full=full)
    if question.answer is None:
        if question.expires_at is not None:
            yield _part(Text("expires"), instant(question.expires_at), full=full)
        return
    if question.answer == "expired":
        yield _part(Text("expired"), str(Text("{at}, nobody decided", _when(question))), full=full)
        return
    yield _part(_label(question), _by(question), full=full)
    if question.corrected is not None:
        yield _part(Text("corrected"), _json(question.corrected), full=full)


def _label(question: Question) -> Text:
    if question.answer == "granted":
        return Text("approved")
    if question.answer == "rejected":
        return Text("rejected")
    return Text("happened") if question.happened else Text("not done")


def _by(question: Question) -> str:
    text = str(Text("{at}, by {by}", _when(question)))
    if question.on_behalf_of:
        text += str(Text(" for {whom}", {"whom": question.on_behalf_of}))
    return f"{text} — {question.reason}" if question.reason else text


def _when(question: Question) -> Mapping[str, object]:
    return {
        "at": instant(question.at) if question.at else "",
        "by": question.by.id if question.by else "",
    }


def _note(note: Note) -> Text:
    by = note.by.id if note.by else ""
    known = NOTES[note.kind]
    return Text(known.msgid, {"at": instant(note.at), "by": by, "detail": note.detail})


def _cost(cost: Decimal | None) -> str:
    return str(Text("unknown cost")) if cost is None else f"{cost:.6f} $"


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _line(depth: int, text: Text, style: Style | None = None) -> str:
    return "  " * depth + paint(printable(str(text)), style, answers())


def _part(label: Text, value: str, *, full: bool) -> str:
    """One thing said of a node, its values in a column."""
    margin = "\n" + " " * 8
    return f"      · {label!s:<9} : " + margin.join(_short(value, full=full).splitlines())


def _short(value: str, *, full: bool) -> str:
    """Content on one line and shortened; as it is when everything is wanted."""
    if full:
        return "\n".join(map(printable, value.splitlines()))
    flat = printable(" ⏎ ".join(value.splitlines()))
    if len(flat) <= SHORT:
        return flat
    left = len(flat) - SHORT
    return flat[:SHORT] + str(Text("… ({left} more characters, --full)", {"left": left}))
