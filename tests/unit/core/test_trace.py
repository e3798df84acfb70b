"""The tree of a run, from facts written by hand."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from loom_ia.core.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    ApprovalSettled,
    CancelRequested,
    Event,
    ModelCalled,
    ModelFailed,
    ModelResponded,
    Payload,
    Principal,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    StepClosed,
    StepOpened,
    ToolAbandoned,
    ToolCalled,
    ToolCompleted,
    ToolRefused,
    ToolReported,
    ToolUnknown,
    decode,
)
from loom_ia.core.model import Message, TextBlock, ToolCallBlock, Usage, user
from loom_ia.core.projections.calls import CallNode
from loom_ia.core.projections.trace import ModelNode, TraceRun, trace

T0 = datetime(2026, 9, 1, 8, tzinfo=UTC)
ANN = Principal(id="cli:anne", channel="cli")
GOLDEN = Path(__file__).parents[2] / "journals" / "v1" / "golden.jsonl"


def told(*payloads: Payload | tuple[Payload, str]) -> list[Event]:
    """Events a second apart, under the epoch of the last claim."""
    events, epoch = [], 0
    for n, item in enumerate(payloads):
        payload, span = item if isinstance(item, tuple) else (item, "")
        epoch += isinstance(payload, RunClaimed)
        decided = isinstance(payload, RunStarted | CancelRequested | RunResumed)
        events.append(
            Event(
                id=str(n),
                seq=n + 1,
                tenant_id="default",
                session_id="s",
                run_id="r",
                position=n + 1,
                span_id=span or getattr(payload, "call_id", ""),
                type=payload.type,
                at=T0 + timedelta(seconds=n),
                epoch=0 if decided else epoch,
                payload=payload,
            )
        )
    return events


def asked(*names: str, text: str = "") -> Message:
    calls = [
        ToolCallBlock(id=f"c{n}", name=name, arguments={"n": n}) for n, name in enumerate(names)
    ]
    said = [TextBlock(text=text)] if text else []
    return Message(role="assistant", blocks=(*said, *calls))


def answer(step: int, message: Message) -> list[tuple[Payload, str]]:
    """One successful call of the main model."""
    usage = Usage(input=10, output=2)
    called = ModelCalled(step=step, model="SIMULE")
    responded = ModelResponded(
        step=step, model="fake-1", message=message, usage=usage, cost=Decimal("0.1"), ms=3
    )
    return [(called, f"{step}.1"), (responded, f"{step}.1")]


START = [RunStarted(agent="a", message=user("Va"), principal=ANN), RunClaimed()]
SENT = [*START, *answer(1, asked("envoyer")), StepOpened(step=2)]


def only(tree: TraceRun) -> CallNode:
    node = tree.steps[1].nodes[0]
    assert isinstance(node, CallNode)
    return node


def test_a_trace_has_the_steps_their_calls_and_what_they_cost() -> None:
    tree = trace(
        told(
            *START,
            *answer(1, asked("lire", "lire", text="Je lis.")),
            StepOpened(step=2),
            ToolCalled(call_id="c0"),
            ToolCalled(call_id="c1"),
            ToolCompleted(call_id="c1", blocks=(TextBlock(text="un"),), ms=5),
            ToolCompleted(call_id="c0", blocks=(TextBlock(text="non"),), is_error=True, ms=7),
            StepClosed(step=2),
            *answer(3, asked(text="Fini.")),
            RunCompleted(),
        )
    )
    assert (tree.message, tree.by, tree.ms) == ("Va", ANN, 12_000)
    assert (tree.result.status, tree.result.text) == ("completed", "Fini.")
    assert tree.result.cost == Decimal("0.2")
    assert [(step.number, step.kind) for step in tree.steps] == [
        (1, "model"),
        (2, "tools"),
        (3, "model"),
    ]
    model = tree.steps[0].nodes[0]
    assert isinstance(model, ModelNode)
    assert (model.model, model.status, model.text, model.ms) == ("fake-1", "ok", "Je lis.", 3)
    assert [(call.name, call.arguments) for call in model.calls] == [
        ("lire", {"n": 0}),
        ("lire", {"n": 1}),
    ]
    tools = [(n.call_id, n.status, n.result, n.ms) for n in tree.steps[1].nodes if n.kind == "tool"]
    assert tools == [("c0", "error", "non", 7), ("c1", "ok", "un", 5)]


def test_an_attempt_without_answer_is_told_apart_from_one_that_failed() -> None:
    failed = ModelFailed(step=1, attempt=2, model="fake-1", code="model", detail="en panne")
    tree = trace(
        told(
            *START,
            (ModelCalled(step=1, model="S"), "1.1"),
            RunClaimed(crashed=True, holder="ici:7"),
            (ModelCalled(step=1, attempt=2, model="S"), "1.2"),
            (failed, "1.2"),
            (ModelCalled(step=1, attempt=3, model="S"), "1.3"),
        )
    )
    statuses = [node.status for node in tree.steps[0].nodes]
    assert statuses == ["lost", "error", "started"]
    assert [(note.kind, note.detail) for note in tree.notes] == [("crashed", "ici:7")]
    assert tree.result.cost is None


def test_an_approval_says_who_decided_what_and_when() -> None:
    arguments: dict[str, object] = {"à": "durand"}
    tree = trace(
        told(
            *SENT,
            ApprovalRequested(call_id="c0", tool="envoyer", arguments={"n": 0}),
            ApprovalGranted(call_id="c0", by=ANN, reason="vu", arguments=arguments),
            ToolCalled(call_id="c0", arguments=arguments),
            ToolCompleted(call_id="c0", blocks=(TextBlock(text="parti"),), ms=4),
        )
    )
    call = only(tree)
    assert (call.status, call.arguments, call.result) == ("ok", arguments, "parti")
    question = call.questions[0]
    assert (question.answer, question.by, question.reason) == ("granted", ANN, "vu")
    assert question.corrected == arguments
    assert question.asked_at == T0 + timedelta(seconds=5)
    assert question.at == T0 + timedelta(seconds=6)


def test_a_call_that_waits_was_refused_or_expired_says_so() -> None:
    request = ApprovalRequested(call_id="c0", tool="envoyer", arguments={"n": 0})
    rejected = ApprovalRejected(call_id="c0", by=ANN, reason="trop tôt", text="refusé : trop tôt")
    waiting = only(trace(told(*SENT, request)))
    assert (waiting.status, waiting.questions[0].answer) == ("waiting", None)
    refused = only(trace(told(*SENT, request, rejected)))
    assert (refused.status, refused.result) == ("refused", "refusé : trop tôt")
    assert refused.questions[0].answer == "rejected"
    expired = only(trace(told(*SENT, request, ApprovalExpired(call_id="c0", text="trop tard"))))
    assert (expired.status, expired.questions[0].answer) == ("refused", "expired")
    denied = ToolRefused(call_id="c0", code="arguments", text="il manque à")
    wrong = only(trace(told(*SENT, denied)))
    assert (wrong.status, wrong.code, wrong.launches) == ("refused", "arguments", 0)


def test_an_unknown_outcome_keeps_its_reason_and_what_people_said_of_it() -> None:
    unknown = ToolUnknown(call_id="c0", reason="timeout", detail="30 s", still_running=True, ms=9)
    call = only(trace(told(*SENT, ToolCalled(call_id="c0"), unknown)))
    assert (call.status, call.doubt, call.detail, call.still_running) == (
        "unknown",
        "timeout",
        "30 s",
        True,
    )
    again = ApprovalRequested(call_id="c0", tool="envoyer", arguments={}, why="unknown")
    no = ApprovalRejected(call_id="c0", by=ANN, text="non")
    call = only(trace(told(*SENT, ToolCalled(call_id="c0"), unknown, again, no)))
    assert (call.status, call.questions[0].answer) == ("unknown", "rejected")
    settled = ApprovalSettled(call_id="c0", by=ANN, happened=True, text="c'est parti")
    call = only(trace(told(*SENT, ToolCalled(call_id="c0"), unknown, again, settled)))
    assert (call.status, call.result, call.questions[0].happened) == ("ok", "c'est parti", True)


def test_a_crash_makes_what_had_left_unknown() -> None:
    crashed = RunClaimed(crashed=True)
    call = only(trace(told(*SENT, ToolCalled(call_id="c0"), crashed)))
    assert (call.status, call.doubt) == ("unknown", "crash")
    call = only(trace(told(*SENT, ToolCalled(call_id="c0"), crashed, ToolCalled(call_id="c0"))))
    assert call.status == "started"


def test_an_outcome_that_came_too_late_for_the_model_is_still_told() -> None:
    late = ToolReported(call_id="c0", blocks=(TextBlock(text="envoyé"),), ms=70_000)
    tree = trace(
        told(
            *SENT,
            ToolCalled(call_id="c0"),
            ToolUnknown(call_id="c0", reason="lease_lost"),
            ToolAbandoned(call_id="c0", text="issue inconnue"),
            StepClosed(step=2),
            late,
        )
    )
    call = only(tree)
    assert (call.status, call.result, call.late, call.doubt) == ("ok", "envoyé", True, "lease_lost")


def test_a_fact_that_could_not_apply_is_not_in_the_trace() -> None:
    request = ApprovalRequested(call_id="c0", tool="envoyer", arguments={})
    second = Principal(id="cli:bob", channel="cli")
    tree = trace(
        told(
            *SENT,
            request,
            ApprovalGranted(call_id="c0", by=ANN),
            ApprovalRejected(call_id="c0", by=second, text="non"),
        )
    )
    call = only(tree)
    assert (call.status, call.questions[0].answer, call.questions[0].by) == (
        "asked",
        "granted",
        ANN,
    )


def test_what_happened_to_the_run_as_a_whole_is_noted() -> None:
    tree = trace(
        told(
            *START,
            RunFailed(code="run_held", resumable=True),
            RunResumed(by=ANN),
            CancelRequested(by=ANN, reason="assez"),
            RunCancelled(),
        )
    )
    assert [(note.kind, note.by, note.detail) for note in tree.notes] == [
        ("resumed", ANN, ""),
        ("cancel_requested", ANN, "assez"),
    ]
    assert tree.result.status == "cancelled"


def test_any_journal_has_a_trace_and_it_goes_through_json() -> None:
    events = [decode(line) for line in GOLDEN.read_bytes().splitlines()]
    for n in range(len(events) + 1):
        tree = trace(events[:n])
        assert TraceRun.model_validate_json(tree.model_dump_json()) == tree
    for event in events:
        trace([event])
