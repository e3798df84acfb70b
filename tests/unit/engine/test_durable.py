"""The same promises on disk: cut, raced and resumed through another store of the same files."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom_ia.adapters.env import Env
from loom_ia.adapters.storage import jsonl, sqlite
from loom_ia.core.errors import SessionBusyError
from loom_ia.core.fold import fold
from loom_ia.core.ports import RunRef
from loom_ia.testing.journals import Cut, Cutting, Gated

NAMES = ["lire", "ranger", "noter", "envoyer", "lancer", "casser"]
SCRIPTS = st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), max_size=2)


@pytest.fixture(scope="module", params=[jsonl.Settings, sqlite.Settings], ids=["jsonl", "sqlite"])
def files(request):
    return request.param()


def check(play, events, state):
    """Check that a resumed run ended, that no effect was doubled, that each call has a result."""
    assert state.status == "completed"
    assert fold(events) == state
    assert [e.position for e in events] == list(range(1, len(events) + 1))
    told = play.results(state)
    for turn, names in enumerate(play.script):
        for index, name in enumerate(names):
            key, text = f"r:{turn + 1}:{index}", told[f"fake_{turn}_{index}"]
            if name in {"lire", "ranger"}:
                assert text == f"ok {key}"
                continue
            assert play.effects()[key] <= 1, "an effect happened twice"
            assert text.startswith("Issue inconnue") or text == f"ok {key}"


@given(script=SCRIPTS, cut=st.integers(0, 14), kept=st.booleans())
@settings(max_examples=20)
async def test_a_run_cut_on_one_store_is_resumed_by_another(
    stage, files, tmp_path_factory, script, cut, kept
):
    env = Env(tmp_path_factory.mktemp("data"))
    async with files.open(env) as first, files.open(env) as second:
        play = stage(script, store=first)
        await play.start()
        dying = Gated(first, Cutting(cut, kept=kept))
        try:
            state = await play.to_the_end(dying)
        except Cut:
            play.inner = second
            state = await play.to_the_end(steal=True)
        events = await play.events()
        check(play, events, state)
        written = {event.position: event for event in events}
        assert all(written[event.position] == event for event in dying.acknowledged)


@given(script=SCRIPTS, turns=st.lists(st.integers(0, 12), max_size=10))
@settings(max_examples=15)
async def test_drivers_of_two_stores_share_a_run_without_doubling(
    stage, files, tmp_path_factory, script, turns
):
    env = Env(tmp_path_factory.mktemp("data"))
    async with files.open(env) as first, files.open(env) as second:
        play = stage(script, turns, store=first)
        await play.start()
        await asyncio.gather(*(play.drive(s, steal=True) for s in (first, second, first)))
        state = await play.to_the_end(second, steal=True)
        check(play, await play.events(), state)


async def test_of_starts_raced_by_two_stores_exactly_one_wins(stage, files, tmp_path):
    env = Env(tmp_path)
    async with files.open(env) as first, files.open(env) as second:
        play = stage(store=first)
        refs = [RunRef("t", "s", f"r{n}", f"r{n}") for n in range(6)]
        outcomes = await asyncio.gather(
            *(play.start(ref, (first, second)[n % 2], idle=True) for n, ref in enumerate(refs)),
            return_exceptions=True,
        )
        assert [type(o) for o in outcomes].count(SessionBusyError) == 5
        assert outcomes.count(None) == 1
