"""Several drivers, humans and starts at once, on a store that suspends in a drawn order."""

import asyncio
import contextlib
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom_ia.core.errors import SessionBusyError, UnknownEventError
from loom_ia.core.events import Foreign, ToolReported
from loom_ia.core.fold import fold
from loom_ia.core.model import TextBlock
from loom_ia.core.ports import Append, Draft, Fence, RunFilter, RunRef
from loom_ia.testing.journals import Cut, Cutting, Gated, Suspending

NAMES = ["lire", "ranger", "noter", "envoyer", "lancer", "casser"]
SCRIPTS = st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4), min_size=1, max_size=2)
PAUSES = st.lists(st.integers(0, 6), max_size=60)
TURNS = st.lists(st.integers(0, 12), max_size=16)
STARTS = {"model.called", "step.opened", "tool.called", "approval.requested"}
OUTCOMES = {"tool.completed", "tool.unknown", "tool.reported"}


def check(play, events, state):
    """Check that each effect happened at most once and each call was answered once."""
    assert fold(events) == state
    for name, key in play.ledger:
        if name not in {"lire", "ranger"}:
            assert play.effects()[key] == 1, "an effect happened twice"
    assert len({e.id for e in events}) == len(events)


@given(script=SCRIPTS, turns=TURNS, pauses=PAUSES, arrivals=st.tuples(*[st.integers(0, 40)] * 2))
@settings(max_examples=300)
async def test_three_drivers_of_one_name_never_do_an_effect_twice(
    stage, script, turns, pauses, arrivals
):
    play = stage(script, turns)
    await play.start()
    store = Gated(play.inner, Suspending(pauses))

    async def arrive(after):
        for _ in range(after):
            await asyncio.sleep(0)
        return await play.drive(store, steal=True)

    await asyncio.gather(*(arrive(after) for after in (0, *arrivals)))
    state = await play.to_the_end(steal=True)
    assert state.status == "completed"
    check(play, await play.events(), state)
    told = play.results(state)
    assert len(told) == sum(map(len, script))
    for turn, names in enumerate(script):
        for index, name in enumerate(names):
            key, text = f"r:{turn + 1}:{index}", told[f"fake_{turn}_{index}"]
            if name in {"lire", "ranger"}:
                assert text == f"ok {key}"
            elif text == f"ok {key}":
                assert play.effects()[key] == 1
            else:
                assert text.startswith("Issue inconnue")


class Asking:
    """Asks to cancel a run just before its nth append is made, or just after."""

    def __init__(self, play, at, *, before):
        self.play, self.left, self.before = play, at, before

    async def enter(self, operation):
        if operation == "append":
            self.left -= 1
        if self.left < 0 and self.before:
            await self._ask()

    async def leave(self, operation):
        if self.left < 0 and not self.before:
            await self._ask()

    async def _ask(self):
        self.left = 10_000
        if (await self.play.state()).ending is None:
            await self.play.cancel()


@given(
    script=SCRIPTS,
    turns=TURNS,
    pauses=PAUSES,
    request=st.tuples(st.integers(0, 20), st.booleans()),
    drivers=st.integers(1, 3),
)
@settings(max_examples=200)
async def test_a_cancelled_run_starts_nothing_more_and_records_what_was_in_flight(
    stage, script, turns, pauses, request, drivers
):
    play = stage(script, turns)
    await play.start()
    asking = Asking(play, request[0], before=request[1])
    store = Gated(play.inner, Suspending(pauses), asking)
    await asyncio.gather(*(play.drive(store, steal=True) for _ in range(drivers)))
    state = await play.to_the_end(steal=True)
    events = await play.events()
    check(play, events, state)
    types = [event.type for event in events]
    if "cancel.requested" not in types:
        assert state.status == "completed"
        return
    assert state.status == "cancelled"
    asked = types.index("cancel.requested")
    assert not STARTS & set(types[asked:])
    assert [t for t in types[asked:] if t.startswith("run.ca")] == ["run.cancelled"]
    if drivers == 1:
        assert types[-1] == "run.cancelled"
        left = Counter(e.payload.call_id for e in events if e.type == "tool.called")
        back = Counter(e.payload.call_id for e in events if e.type in OUTCOMES)
        assert left == back


@given(pauses=PAUSES, runs=st.integers(2, 5))
@settings(max_examples=50)
async def test_of_racing_starts_in_an_idle_session_exactly_one_wins(stage, pauses, runs):
    play = stage()
    store = Gated(play.inner, Suspending(pauses))
    refs = [RunRef("t", "s", f"r{n}", f"r{n}") for n in range(runs)]
    outcomes = await asyncio.gather(
        *(play.start(ref, store, idle=True) for ref in refs), return_exceptions=True
    )
    assert sorted(map(type, outcomes), key=str) == sorted(
        [type(None), *[SessionBusyError] * (runs - 1)], key=str
    )
    assert len(await play.inner.index.runs("t", RunFilter("s"))) == 1


async def test_a_paused_run_leaves_its_session_free_and_a_driven_one_does_not(stage):
    play = stage([["signer"]])
    await play.start()
    other = RunRef("t", "s", "r2", "r2")
    with pytest.raises(SessionBusyError):
        await play.start(other, idle=True)
    assert (await play.drive()).status == "paused"
    await play.start(other, idle=True)


class Between:
    """Does something once, just before or just after an operation."""

    def __init__(self, operation, act, *, after=False):
        self.operation, self.act, self.after = operation, act, after

    async def enter(self, operation):
        await self._do(operation, after=False)

    async def leave(self, operation):
        await self._do(operation, after=True)

    async def _do(self, operation, *, after):
        if operation == self.operation and after is self.after:
            self.operation = None
            await self.act()


async def test_a_driver_that_finds_the_run_ended_when_it_claims_gives_its_end(stage):
    play = stage([["envoyer"]])
    await play.start()
    state = await play.drive(Gated(play.inner, Between("claim", play.drive)))
    assert state.status == "completed"
    assert state == fold(await play.events())


@pytest.mark.parametrize("script", [[["signer"]], [["lire"]]])
async def test_a_driver_that_lost_the_run_while_leaving_it_gives_what_the_journal_says(
    stage, script
):
    play = stage(script)
    await play.start()

    async def take_over():
        await play.answer_humans()
        await play.drive(steal=True)

    state = await play.drive(Gated(play.inner, Between("release", take_over)))
    assert state == fold(await play.events())
    assert state.status == "completed"


async def test_a_decision_made_while_a_driver_leaves_is_acted_on(stage):
    play = stage([["signer"]])
    await play.start()
    state = await play.drive(Gated(play.inner, Between("release", play.answer_humans)))
    assert state.status == "completed"
    assert play.ledger == [("signer", "r:1:0")]


async def test_a_late_report_of_a_call_that_is_made_again_settles_it_first(stage):
    play = stage([["lire", "lire"]], [0, 0, 4, 9])
    await play.start()
    with contextlib.suppress(Cut):
        await play.drive(Gated(play.inner, Cutting(2, kept=True)))
    assert [c.status for c in (await play.state()).calls] == ["started", "started"]

    async def report():
        late = ToolReported(call_id="fake_0_1", blocks=(TextBlock(text="tard"),))
        draft = Draft(play.ids.new(), late)
        await play.inner.journal.append(Append(play.ref, [draft], Fence("report")))

    play.world.tools["lire"].turns = iter([0, 9])
    appends = iter(range(9))

    class Reporting:
        async def enter(self, operation):
            if operation == "append" and next(appends) == 1:
                await report()

        async def leave(self, operation):
            pass

    state = await play.drive(Gated(play.inner, Reporting()), steal=True)
    assert state.status == "completed"
    assert state == fold(await play.events())
    assert play.results(state) == {"fake_0_0": "ok r:1:0", "fake_0_1": "tard"}


async def test_a_run_that_holds_an_event_of_a_later_version_is_not_driven(stage):
    play = stage([["lire"]])
    await play.start()

    async def write():
        draft = Draft(play.ids.new(), Foreign())
        await play.inner.journal.append(Append(play.ref, [draft], Fence("report")))

    with pytest.raises(UnknownEventError):
        await play.drive(Gated(play.inner, Between("claim", write)))
    assert not play.ledger
    with pytest.raises(UnknownEventError):
        await play.drive()


async def test_an_outcome_whose_driver_lost_the_run_is_reported_and_settles_its_call(stage):
    play = stage([["envoyer"]])
    await play.start()

    class Stealing:
        """Takes the run over once the tool came back, before its outcome is written."""

        stolen = False

        async def enter(self, operation):
            if operation == "append" and play.returned and not self.stolen:
                self.stolen = True
                ttl = timedelta(seconds=60)
                await play.inner.leases.claim(play.ref, ttl=ttl, holder="autre", steal=True)

        async def leave(self, operation):
            pass

    await play.drive(Gated(play.inner, Suspending([]), Stealing()))
    assert (await play.events())[-1].type == "tool.reported"
    state = await play.to_the_end(steal=True)
    assert play.results(state) == {"fake_0_0": "ok r:1:0"}
    assert len(play.ledger) == 1
