"""People who approve, reject, correct, stop and come too late, processes that die: any order."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from loom_ia.adapters.storage.memory import MemoryStore
from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.events import ApprovalExpired, ApprovalRequested, Decided, Principal
from loom_ia.core.fold import apply, fold
from loom_ia.core.plan import CRASHES, Asking
from loom_ia.core.planner import StepCrashedError
from loom_ia.core.state import RunState
from loom_ia.runtime import decisions
from loom_ia.runtime.decisions import Decision
from loom_ia.testing.journals import Cut, Cutting, Gated, Suspending

T0 = datetime(2026, 9, 1, 8, tzinfo=UTC)
SCRIPT = [["signer", "noter", "signer"], ["payer", "signer"]]
CALLS = [f"fake_{turn}_{n}" for turn, names in enumerate(SCRIPT) for n in range(len(names))]
ASKED = {"r:1:0", "r:1:2", "r:2:1"}
"""Keys of the calls that need an approval."""
WHO = st.sampled_from(["key:a", "key:b"])
ACTS = st.one_of(
    st.tuples(
        st.sampled_from(["approve", "reject", "edit"]),
        st.sampled_from([None, *CALLS]),
        WHO,
    ),
    st.tuples(st.just("resume"), st.none(), WHO),
    st.tuples(st.just("later"), st.sampled_from([2, 30, 60]), WHO),
    st.tuples(st.just("cancel"), st.none(), WHO),
)
PAUSES = st.lists(st.integers(0, 5), max_size=40)


class Machine(RuleBasedStateMachine):
    """One run, the people who decide of it, and the processes that drive it."""

    def __init__(self, stage):
        super().__init__()
        self.runner = asyncio.Runner()
        self.play = stage(SCRIPT, [3, 0, 5, 2, 7])
        self.now, self.kills = T0, 0
        self.play.inner = MemoryStore(lambda: self.now)
        plan = replace(self.play.world.plan, asking=Asking(expires_in=timedelta(hours=1)))
        self.play.world = replace(self.play.world, plan=plan)
        self.runner.run(self.play.start())
        self.runner.run(self.play.drive())

    async def act(self, act, store):
        kind, call, who = act
        ports, ref = self.play.ports(store), self.play.ref
        by = Principal(id=who, channel="rest")
        if kind == "later":
            for _ in range(call % 7):  # somewhere in what the others do
                await asyncio.sleep(0)
            self.now += timedelta(minutes=call)
        elif kind == "resume":
            await self.play.drive(store, steal=True)
        elif kind == "cancel":
            await decisions.cancel(ref, by, "", ports)
        else:
            verdict = "reject" if kind == "reject" else "approve"
            arguments = {"a": who} if kind == "edit" else None
            decision = Decision(verdict, by, call=call, arguments=arguments)
            await decisions.decide(ref, decision, lambda _: self.play.world, ports)

    async def tried(self, act, store):
        """Act; what is refused is refused for a reason that a person can be told."""
        refused: LoomError | None = None
        try:
            await self.act(act, store)
        except LoomError as error:
            refused = error
        assert refused is None or (refused.kind in {Kind.CONFLICT, Kind.INVALID} and str(refused))

    @rule(acts=st.lists(ACTS, min_size=2, max_size=4), pauses=PAUSES)
    def at_once(self, acts, pauses):
        store = Gated(self.play.inner, Suspending(pauses))

        async def all_of_them():
            await asyncio.gather(*(self.tried(act, store) for act in acts))

        self.runner.run(all_of_them())

    @rule(approved=st.booleans(), at=st.integers(0, 8), kept=st.booleans())
    def killed(self, approved, at, kept):
        store = Gated(self.play.inner, Cutting(at, kept=kept))
        self.kills += 1

        async def cut():
            if approved:
                await self.tried(("approve", None, "key:a"), self.play.inner)
            with suppress(Cut):
                await self.tried(("resume", None, "key:a"), store)

        self.runner.run(cut())

    @invariant()
    def one_decision_for_each_question_and_one_effect_for_each_call(self):
        events = self.runner.run(self.play.events())
        state, answered, allowed = RunState(), Counter(), Counter()
        open_questions, granted = {}, set()
        for event in events:
            before, state = state, apply(state, event)
            payload = event.payload
            assert state.ignored == before.ignored or payload.type == "tool.reported", event
            if isinstance(payload, ApprovalRequested):
                open_questions[payload.call_id] = event
            elif isinstance(payload, Decided | ApprovalExpired):
                question = open_questions[payload.call_id]
                answered[question.id] += 1
                late = event.at >= question.payload.expires_at
                assert late is isinstance(payload, ApprovalExpired)
                if payload.type == "approval.granted":
                    turn, index = payload.call_id.split("_")[1:]
                    key = f"r:{int(turn) + 1}:{index}"
                    granted.add(key)
                    allowed[key] += question.payload.why == "unknown"
        assert all(count == 1 for count in answered.values())
        effects = self.play.effects()
        for key, count in effects.items():
            assert count <= 1 + allowed[key], "an effect happened twice"
        assert ASKED & set(effects) <= granted, "it left without leave"
        assert state == fold(events)

    def teardown(self):
        try:
            state = self.runner.run(self.play.to_the_end(steal=True))
            if state.status == "failed":  # as it must once one step took five drivers down
                assert state.ending.code == StepCrashedError.code
                assert self.kills >= CRASHES
            else:
                assert state.status in {"completed", "cancelled"}
                self.play.results(state)
            self.one_decision_for_each_question_and_one_effect_for_each_call()
        finally:
            self.runner.close()


def test_decisions_expiries_kills_and_resumptions_in_any_order_keep_one_of_each(stage):
    run_state_machine_as_test(
        lambda: Machine(stage), settings=settings(max_examples=150, stateful_step_count=10)
    )
