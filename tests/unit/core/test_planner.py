"""Every row of the planner's table, by the facts that lead to it."""

from datetime import UTC, datetime, timedelta

import pytest

from loom_ia.core import effects
from loom_ia.core.events import (
    ApprovalGranted,
    ApprovalRequested,
    BudgetExceeded,
    CancelRequested,
    ChildWaiting,
    Event,
    GuardChecked,
    ModelCalled,
    ModelResponded,
    Payload,
    Principal,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    StepClosed,
    StepOpened,
    ToolCalled,
    ToolCompleted,
    ToolSettled,
    ToolUnknown,
)
from loom_ia.core.fold import fold
from loom_ia.core.model import Message, TextBlock, ToolCallBlock, user
from loom_ia.core.plan import CRASHES, Plan, Remedy, ToolPlan
from loom_ia.core.planner import NOTHING, TABLE, diagram, next_effect
from loom_ia.core.state import PendingAnswer, RunState

T0 = datetime(2026, 9, 1, 8, tzinfo=UTC)
ME = Principal(id="cli:dupont", channel="cli")
PLAN = Plan(
    tools={
        "lire": ToolPlan(side_effects="none"),
        "envoyer": ToolPlan(side_effects="irreversible"),
        "payer": ToolPlan(side_effects="irreversible", on_unknown="pause"),
        "suivi": ToolPlan(side_effects="irreversible", settles=True),
        "signer": ToolPlan(side_effects="irreversible", approval="always", definition="v1"),
        "rediger": ToolPlan(side_effects="none", terminal=True),
        "verifier": ToolPlan(child=True),
    },
    max_iterations=3,
    fallback="repli",
)


def events(*facts: Payload | tuple[Payload, int]) -> list[Event]:
    """Events of one run, a second apart, under epoch 1 unless a fact says another."""
    written: list[Event] = []
    for n, item in enumerate(facts, 1):
        fact, epoch = item if isinstance(item, tuple) else (item, 1)
        written.append(
            Event(
                id=str(n),
                seq=n,
                tenant_id="default",
                session_id="s",
                run_id="r",
                position=n,
                type=fact.type,
                at=T0 + timedelta(seconds=n),
                epoch=epoch,
                payload=fact,
            )
        )
    return written


def state(*facts: Payload | tuple[Payload, int]) -> RunState:
    started = RunStarted(agent="a", message=user("bonjour"), principal=ME)
    return fold(events((started, 0), RunClaimed(), *facts))


def asked(*names: str) -> tuple[Payload, ...]:
    blocks = tuple(ToolCallBlock(id=f"c{n}", name=name) for n, name in enumerate(names))
    message = Message(role="assistant", blocks=blocks)
    return (ModelCalled(step=1, model="M"), ModelResponded(step=1, message=message, stop="calls"))


def opened(*names: str) -> tuple[Payload, ...]:
    return (*asked(*names), StepOpened(step=2))


def said(text: str, step: int = 1, *, final: bool = False) -> tuple[Payload, ...]:
    message = Message(role="assistant", blocks=(TextBlock(text=text),))
    return (
        ModelCalled(step=step, model="M", final=final),
        ModelResponded(step=step, message=message),
    )


def plan_of(current: RunState, plan: Plan = PLAN, *, seconds: float = 60) -> effects.Effect | None:
    now = T0 + timedelta(seconds=seconds)
    effect = next_effect(current, plan, now)
    assert effect == by_table(current, plan, now)
    return effect


def by_table(current: RunState, plan: Plan, now: datetime) -> effects.Effect | None:
    """What the whole table says; the planner tries only the rows whose subject is there."""
    for row in TABLE:
        found = row.find(current, plan, now)
        if found is not None:
            return None if found is NOTHING else found
    return None


def ok(call_id: str) -> ToolCompleted:
    return ToolCompleted(call_id=call_id, blocks=(TextBlock(text="fait"),))


def request(call_id: str, tool: str, **fields: object) -> ApprovalRequested:
    return ApprovalRequested.model_validate(
        {"call_id": call_id, "tool": tool, "arguments": {}, **fields}
    )


def test_an_ended_run_needs_nothing() -> None:
    assert plan_of(state(*said("fin"), RunCompleted())) is None


def test_a_run_that_never_started_needs_nothing() -> None:
    assert plan_of(RunState()) is None


def test_a_cancel_request_stops_before_anything_else() -> None:
    assert plan_of(state(*opened("lire"), CancelRequested(by=ME))) == effects.Stop()


def test_driving_time_counts_what_the_driver_wrote_and_the_present_effect() -> None:
    slow = Plan(timeout=timedelta(seconds=10))
    running = state(ModelCalled(step=1, model="M"))
    assert isinstance(plan_of(running, slow, seconds=11), effects.CallModel)
    found = plan_of(running, slow, seconds=12)
    assert isinstance(found, effects.Fail)
    assert found.code == "agent_timeout"
    assert found.resumable


def test_a_pause_is_not_driving_time() -> None:
    slow = Plan(tools=PLAN.tools, timeout=timedelta(seconds=10))
    paused = events(
        (RunStarted(agent="a", message=user("x"), principal=ME), 0),
        RunClaimed(),
        *opened("signer"),
        request("c0", "signer"),
    )
    later = T0 + timedelta(hours=3)
    granted = paused[-1].model_copy(
        update={
            "position": 7,
            "at": later,
            "epoch": 0,
            "payload": ApprovalGranted(call_id="c0", by=ME),
        }
    )
    claimed = granted.model_copy(
        update={
            "position": 8,
            "at": later + timedelta(seconds=1),
            "epoch": 2,
            "payload": RunClaimed(),
        }
    )
    resumed = fold([*paused, granted, claimed])
    assert resumed.driven == timedelta(seconds=4)
    assert isinstance(next_effect(resumed, slow, later + timedelta(seconds=2)), effects.RunTools)


def test_five_crashes_of_one_step_fail_the_run() -> None:
    crashes = [(RunClaimed(crashed=True), n) for n in range(2, CRASHES + 2)]
    four = state(ModelCalled(step=1, model="M"), *crashes[:-1])
    assert isinstance(plan_of(four), effects.CallModel)
    five = state(ModelCalled(step=1, model="M"), *crashes)
    found = plan_of(five)
    assert isinstance(found, effects.Fail)
    assert found.code == "step_crashed"


def test_resuming_forgives_the_crashes() -> None:
    crashes = [(RunClaimed(crashed=True), n) for n in range(2, CRASHES + 2)]
    resumed = state(
        ModelCalled(step=1, model="M"),
        *crashes,
        (RunFailed(code="step_crashed", resumable=True), CRASHES + 1),
        (RunResumed(by=ME), 0),
    )
    assert isinstance(plan_of(resumed), effects.CallModel)


def test_a_crash_of_another_step_starts_the_count_again() -> None:
    crashes = [(RunClaimed(crashed=True), n) for n in range(2, CRASHES + 1)]
    moved = state(*asked("lire"), *crashes, (StepOpened(step=2), 9), (RunClaimed(crashed=True), 10))
    assert moved.crashes == 1


def test_a_request_past_its_date_expires() -> None:
    held = state(*opened("signer"), request("c0", "signer", expires_at=T0 + timedelta(seconds=50)))
    assert plan_of(held, seconds=49.9) is None
    found = plan_of(held, seconds=50)
    assert isinstance(found, effects.Expire)
    assert [c.id for c in found.calls] == ["c0"]


def test_a_model_step_without_answer_is_tried_again_in_the_same_step() -> None:
    assert plan_of(state(ModelCalled(step=1, model="M"))) == effects.CallModel(1, attempt=2)


def test_a_final_step_stays_final_when_it_is_tried_again() -> None:
    final = state(ModelCalled(step=1, model="M", final=True))
    assert plan_of(final) == effects.CallModel(1, attempt=2, final=True)


def test_a_budget_exceeded_during_a_step_makes_its_next_attempt_final() -> None:
    spent = BudgetExceeded(scope="run", limit="max_cost", ceiling=1, spent=2)
    assert plan_of(state(ModelCalled(step=1, model="M"), spent)) == effects.CallModel(
        1, attempt=2, final=True
    )


def test_an_answer_is_reviewed_from_its_first_check_without_a_verdict() -> None:
    plan = Plan(checks=("contrat", "juge"))
    answered = state(*said("fin"))
    assert plan_of(answered, plan) == effects.Review(("contrat", "juge"))
    subject = PendingAnswer("fin").subject
    one = state(*said("fin"), GuardChecked(check="contrat", subject=subject, accepted=True))
    assert plan_of(one, plan) == effects.Review(("juge",))
    other = state(*said("fin"), GuardChecked(check="contrat", subject="autre", accepted=True))
    assert plan_of(other, plan) == effects.Review(("contrat", "juge"))


def refused(*, final: bool = False) -> RunState:
    verdict = GuardChecked(
        check="contrat",
        subject=PendingAnswer("non").subject,
        accepted=False,
        diagnosis="trop court",
    )
    return state(*said("non", final=final), verdict)


@pytest.mark.parametrize(
    ("plan", "final", "expected"),
    [
        (Plan(checks=("contrat",)), False, effects.Repair("trop court")),
        (
            Plan(checks=("contrat",), remedies={"contrat": Remedy(0, "unverified")}),
            False,
            effects.Complete(verified=False),
        ),
        (
            Plan(checks=("contrat",), remedies={"contrat": Remedy(0, "fallback", "repli")}),
            False,
            effects.Complete(text="repli", verified=False),
        ),
        (
            Plan(checks=("contrat",), remedies={"contrat": Remedy(on_failure="fail")}),
            True,
            effects.Fail("answer_refused", {"check": "contrat", "diagnosis": "trop court"}),
        ),
    ],
)
def test_a_refused_answer_is_repaired_or_ends_the_run(plan, final, expected) -> None:
    assert plan_of(refused(final=final), plan) == expected


def test_pending_calls_open_a_step_even_when_none_may_run() -> None:
    free = plan_of(state(*asked("lire", "signer")))
    assert isinstance(free, effects.RunTools)
    assert free.opens
    assert [c.name for c in free.calls] == ["lire"]
    held = plan_of(state(*asked("signer")))
    assert held == effects.RunTools(2, (), opens=True)


def test_a_repeatable_call_of_unknown_outcome_runs_again() -> None:
    lost = state(*opened("lire"), ToolCalled(call_id="c0"), (RunClaimed(crashed=True), 2))
    found = plan_of(lost)
    assert isinstance(found, effects.RunTools)
    assert [c.id for c in found.calls] == ["c0"]


def test_a_call_started_under_this_epoch_is_in_flight() -> None:
    assert plan_of(state(*opened("envoyer"), ToolCalled(call_id="c0"))) is None


def test_an_unknown_call_is_abandoned_or_asked_about_as_declared() -> None:
    crash = (RunClaimed(crashed=True), 2)
    assert isinstance(
        plan_of(state(*opened("envoyer"), ToolCalled(call_id="c0"), crash)), effects.Abandon
    )
    found = plan_of(state(*opened("payer"), ToolCalled(call_id="c0"), crash))
    assert isinstance(found, effects.Ask)
    assert found.why == "unknown"


def test_a_declared_check_is_tried_once_before_giving_up() -> None:
    unknown = (
        *opened("suivi"),
        ToolCalled(call_id="c0"),
        ToolUnknown(call_id="c0", reason="timeout"),
    )
    assert isinstance(plan_of(state(*unknown)), effects.Settle)
    tried = state(*unknown, ToolSettled(call_id="c0", sent=None))
    assert isinstance(plan_of(tried), effects.Abandon)


def test_a_check_that_says_not_sent_allows_one_more_launch() -> None:
    again = state(
        *opened("suivi"),
        ToolCalled(call_id="c0"),
        ToolUnknown(call_id="c0", reason="timeout"),
        ToolSettled(call_id="c0", sent=False, evidence="absent de la boîte d'envoi"),
    )
    assert isinstance(plan_of(again), effects.RunTools)


def test_a_child_that_waited_under_an_older_epoch_is_driven() -> None:
    waited = state(
        *opened("verifier"),
        ToolCalled(call_id="c0"),
        ChildWaiting(call_id="c0"),
        (RunClaimed(), 2),
    )
    assert isinstance(plan_of(waited), effects.Drive)
    still = state(*opened("verifier"), ToolCalled(call_id="c0"), ChildWaiting(call_id="c0"))
    assert plan_of(still) is None
    assert still.status == "waiting_child"


def test_free_calls_run_before_anything_is_asked() -> None:
    found = plan_of(state(*opened("signer", "lire")))
    assert isinstance(found, effects.RunTools)
    assert [c.name for c in found.calls] == ["lire"]


def test_a_call_that_needs_an_approval_is_asked_about() -> None:
    found = plan_of(state(*opened("signer")))
    assert isinstance(found, effects.Ask)
    assert found.why == "declared"


def test_a_held_or_granted_call_whose_tool_changed_is_asked_again() -> None:
    held = (*opened("signer"), request("c0", "signer", definition="v0"))
    assert getattr(plan_of(state(*held)), "why", None) == "changed"
    granted = state(*held, (ApprovalGranted(call_id="c0", by=ME), 0))
    assert getattr(plan_of(granted), "why", None) == "changed"


def test_a_granted_call_runs() -> None:
    granted = state(
        *opened("signer"),
        request("c0", "signer", definition="v1"),
        (ApprovalGranted(call_id="c0", by=ME), 0),
    )
    assert isinstance(plan_of(granted), effects.RunTools)


def test_a_held_call_makes_the_run_wait() -> None:
    held = state(*opened("signer"), request("c0", "signer", definition="v1"))
    assert plan_of(held) is None
    assert held.status == "paused"


def test_a_step_whose_calls_are_settled_is_closed() -> None:
    assert plan_of(state(*opened("lire"), ToolCalled(call_id="c0"), ok("c0"))) == effects.Close(2)


def test_an_accepted_answer_completes_the_run() -> None:
    assert plan_of(state(*said("fin"))) == effects.Complete()


def test_an_empty_last_answer_becomes_the_fallback_message() -> None:
    assert plan_of(state(*said(" ", final=True))) == effects.Complete(text="repli")


def test_the_output_of_a_lone_terminal_tool_is_the_answer() -> None:
    done = ToolCompleted(call_id="c0", blocks=(TextBlock(text="Bonjour"),), terminal=True)
    current = state(*opened("rediger"), ToolCalled(call_id="c0"), done)
    assert plan_of(current) == effects.Close(2)
    closed = state(*opened("rediger"), ToolCalled(call_id="c0"), done, StepClosed(step=2))
    assert plan_of(closed) == effects.Complete()


def test_after_the_results_the_model_is_called_in_a_new_step() -> None:
    told = state(*opened("lire"), ToolCalled(call_id="c0"), ok("c0"), StepClosed(step=2))
    assert plan_of(told) == effects.CallModel(3)


def test_spent_iterations_ask_one_last_answer_without_tools() -> None:
    one = Plan(tools=PLAN.tools, max_iterations=1)
    told = state(*opened("lire"), ToolCalled(call_id="c0"), ok("c0"), StepClosed(step=2))
    assert plan_of(told, one) == effects.CallModel(3, final=True)


def test_calls_of_a_last_answer_never_become_pending() -> None:
    block = ToolCallBlock(id="c9", name="envoyer")
    message = Message(role="assistant", blocks=(block,))
    final = state(
        ModelCalled(step=1, model="M", final=True),
        ModelResponded(step=1, message=message, not_executed="non exécuté"),
    )
    assert final.calls == ()
    assert plan_of(final) == effects.Complete(text="repli")


def test_every_row_is_drawn_and_every_arrow_leads_somewhere() -> None:
    drawn = diagram()
    assert drawn.count("-->|yes|") == len(TABLE)
    assert drawn.count("-->|no|") == len(TABLE) - 1
    for row in TABLE:
        assert row.when in drawn
