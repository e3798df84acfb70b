"""A run cut anywhere and resumed ends as if nothing had happened, or says what it cannot know."""

import asyncio
import contextlib
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loom_ia.adapters.storage.ledger import Ledger
from loom_ia.core.errors import StoreUnavailableError
from loom_ia.core.fold import fold
from loom_ia.core.wording import say
from loom_ia.sessions.history import history_of
from loom_ia.testing.journals import Cut, Cutting, Gated, Suspending

REPEATABLE = ["lire", "ranger"]
LAUNCHED = ["noter", "envoyer", "lancer", "payer", "signer", "refuser", "casser", "rater"]
SCRIPTS = st.lists(
    st.lists(st.sampled_from(REPEATABLE + LAUNCHED), min_size=1, max_size=4), max_size=3
)
TURNS = st.lists(st.integers(0, 5), max_size=12)
ANSWERS = {
    "refuser": {"rien n'est parti"},
    "rater": {"ValueError: pas de chance"},
}


def told_of(name, key):
    """Texts that say of a call what happened when it was not cut."""
    return ANSWERS.get(name, set() if name == "casser" else {f"ok {key}"})


def check(play, state, *, approve=True):
    """Check what must hold of a run that was resumed to its end."""
    assert state.status == "completed"
    assert state.ending.text == "fini"
    effects, told = play.effects(), play.results(state)
    assert len(told) == sum(len(names) for names in play.script)
    for turn, names in enumerate(play.script):
        for index, name in enumerate(names):
            key, text = f"r:{turn + 1}:{index}", told[f"fake_{turn}_{index}"]
            if name in REPEATABLE:
                assert effects[key] >= 1
                assert text == f"ok {key}"
                continue
            assert effects[key] <= 1, "an effect happened twice"
            if name == "signer" and not approve:
                assert effects[key] == 0
                assert text in {"non", say("fr", "rejected_before")}
            elif name == "payer" and text in {"fait", "pas fait"}:
                assert text == ("fait" if effects[key] else "pas fait")
            else:
                assert text in told_of(name, key) or text.startswith("Issue inconnue")
            if text == f"ok {key}":
                assert effects[key] == 1


@given(
    script=SCRIPTS,
    cut=st.tuples(st.integers(0, 30), st.booleans()),
    turns=TURNS,
    pauses=TURNS,
    approve=st.booleans(),
)
@example([["envoyer"]], (3, True), [3], [], True)
@example([["envoyer", "lire", "payer"]], (4, True), [0, 3, 3], [2, 2], True)
@settings(max_examples=200)
async def test_a_cut_run_resumes_without_repeating_an_effect(
    stage, script, cut, turns, pauses, approve
):
    play = stage(script, turns)
    await play.start()
    dying = Gated(play.inner, Suspending(pauses), Cutting(cut[0], kept=cut[1]))
    try:
        state = await play.to_the_end(dying, approve=approve)
    except Cut:
        before = await play.events()
        assert {e.id for e in dying.acknowledged} <= {e.id for e in before}
        state = await play.to_the_end(steal=True, approve=approve)
    events = await play.events()
    kept_events = {e.position: e for e in events}
    assert all(kept_events[e.position] == e for e in dying.acknowledged)
    assert fold(events) == state
    check(play, state, approve=approve)


@given(script=st.lists(st.lists(st.sampled_from(REPEATABLE), min_size=1, max_size=3), max_size=3))
@settings(max_examples=20)
async def test_pure_and_idempotent_work_ends_the_same_wherever_it_was_cut(stage, script):
    whole = stage(script)
    await whole.start()
    expected = await whole.to_the_end()
    cut, kept, died = 0, False, True
    while died:
        play = stage(script)
        await play.start()
        try:
            await play.to_the_end(Gated(play.inner, Cutting(cut, kept=kept)))
            died = False
        except Cut:
            state = await play.to_the_end(steal=True)
            assert state.messages == expected.messages
            assert state.ending == expected.ending
        cut, kept = cut + (1 if kept else 0), not kept


def lose_power(play, keep):
    """Leave in a memory store the first events only, as a disk would after a power loss."""
    session = play.inner.journal._shelves.tenants["t"].sessions["s"]
    groups, session.groups, session.ledger = session.groups, [], Ledger()
    for group in groups:
        if group.position <= keep:
            left = replace(group, facts=group.facts[: keep - group.position + 1])
            session.groups.append(left)
            session.ledger.take(left.group())
    session.runs["r"] = list(session.groups)


@given(script=SCRIPTS, cut=st.integers(0, 30), kept=st.booleans(), lost=st.integers(0, 8))
@settings(max_examples=200)
async def test_a_power_loss_that_takes_what_was_not_synced_repeats_no_effect(
    stage, script, cut, kept, lost
):
    play = stage(script)
    await play.start()
    dying = Gated(play.inner, Cutting(cut, kept=kept))
    try:
        state = await play.to_the_end(dying)
    except Cut:
        safe = {d.id for w in dying.appends if w.sync for d in w.drafts}
        events = await play.events()
        synced = max([1, *(e.position for e in events if e.id in safe or e.epoch == 0)])
        lose_power(play, max(synced, len(events) - lost))
        state = await play.to_the_end(steal=True)
    assert fold(await play.events()) == state
    check(play, state)


async def test_a_cut_while_calls_are_in_flight_leaves_nothing_stranded(stage):
    play = stage([["envoyer", "lire"]], [9, 9])
    await play.start()
    with pytest.raises(Cut):
        await play.to_the_end(Gated(play.inner, Cutting(3, kept=True)))
    assert [call.status for call in (await play.state()).calls] == ["started", "started"]
    state = await play.to_the_end(steal=True)
    check(play, state)
    assert play.results(state)["fake_0_0"].startswith("Issue inconnue")


@given(script=SCRIPTS, turns=TURNS, pauses=TURNS, after=st.integers(0, 60))
@settings(max_examples=200)
async def test_a_drive_whose_task_is_cancelled_records_what_came_back(
    stage, script, turns, pauses, after
):
    play = stage(script, turns)
    await play.start()
    store = Gated(play.inner, Suspending(pauses))
    task = asyncio.create_task(play.drive(store))
    for _ in range(after):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    back = set(play.returned)
    state = await play.to_the_end(steal=True)
    check(play, state)
    told = set(play.results(state).values())
    assert {f"ok {key}" for key in back} <= told


class Failing:
    """A store out of reach at its nth append, which was made or not."""

    def __init__(self, at, *, made):
        self.left, self.made = at, made

    async def enter(self, operation):
        self.left -= operation == "append"
        await self._fail(operation, made=False)

    async def leave(self, operation):
        await self._fail(operation, made=True)

    async def _fail(self, operation, *, made):
        if operation == "append" and self.left == -1 and made is self.made:
            self.left -= 1
            raise StoreUnavailableError(path="data", reason="hors service")


@given(script=SCRIPTS, turns=TURNS, pauses=TURNS, at=st.integers(0, 20))
@settings(max_examples=100)
async def test_a_write_that_was_made_and_not_acknowledged_is_found_again(
    stage, script, turns, pauses, at
):
    play = stage(script, turns)
    await play.start()
    store = Gated(play.inner, Suspending(pauses), Failing(at, made=True))
    state = await play.to_the_end(store)
    check(play, state)
    assert fold(await play.events()) == state
    assert not any(text.startswith("Issue inconnue") for text in whole(play, state))


def whole(play, state):
    """Results of the calls that had no reason to be unknown."""
    told = play.results(state)
    return [
        told[f"fake_{turn}_{index}"]
        for turn, names in enumerate(play.script)
        for index, name in enumerate(names)
        if name not in {"casser", "payer"}
    ]


@given(script=SCRIPTS, turns=TURNS, pauses=TURNS, at=st.integers(0, 20))
@settings(max_examples=100)
async def test_a_store_out_of_reach_stops_the_run_which_goes_on_later(
    stage, script, turns, pauses, at
):
    play = stage(script, turns)
    await play.start()
    store = Gated(play.inner, Suspending(pauses), Failing(at, made=False))
    try:
        state = await play.to_the_end(store)
    except StoreUnavailableError:
        state = await play.to_the_end(steal=True)
    check(play, state)


@given(script=SCRIPTS, turns=TURNS, prefix=st.integers(1, 60))
@settings(max_examples=100)
async def test_a_session_goes_on_from_whatever_its_last_run_left(stage, script, turns, prefix):
    play = stage(script, turns)
    await play.start()
    await play.to_the_end(Gated(play.inner, Suspending([])))
    messages = history_of((await play.events())[:prefix], "fr").messages
    assert messages[0].role == "user"
    assert messages[-1].role == "assistant"
    assert not messages[-1].calls
    for asked, told in pairwise(messages):
        calls = [call.id for call in asked.calls]
        results = [b.call_id for b in told.blocks if b.type == "tool_result"]
        assert calls == results
