"""Outcomes that nobody knows: a check or a human settles them, and nothing else."""

import asyncio
from dataclasses import replace

import pytest

from loom_ia.core.errors import LoomError
from loom_ia.core.events import Principal
from loom_ia.core.plan import ToolPlan
from loom_ia.core.ports import NotSent, Sent
from loom_ia.runtime.decisions import Decision, decide
from loom_ia.runtime.errors import AlreadyDecidedError, NotUnknownError
from loom_ia.tools.settling import check_of

ME = Principal(id="cli:dupont", channel="cli")
KEY = "r:1:0"


async def doubtful(stage, check=None, on_unknown="error"):
    """A call of which nobody knows whether it acted: the tool breaks after its effect."""
    play = stage([["casser"]])
    rules = ToolPlan(side_effects="irreversible", on_unknown=on_unknown, settles=check is not None)
    plan = replace(play.world.plan, tools={**play.world.plan.tools, "casser": rules})
    settles = {} if check is None else {"casser": check_of(check)}
    play.world = replace(play.world, plan=plan, settles=settles, timeouts={"casser": 0.01})
    await play.start()
    return play, await play.drive()


def told(play, state):
    [text] = play.results(state).values()
    return text


async def settled(play):
    return [e.payload for e in await play.events() if e.type == "tool.settled"]


async def test_a_check_that_finds_the_effect_settles_the_call(stage):
    """S88."""
    play, state = await doubtful(stage, lambda _, context: Sent(context.idempotency_key, "msg 7"))
    assert told(play, state) == "Vérifié auprès du système : l'appel a bien agi. msg 7"
    [fact] = await settled(play)
    assert (fact.sent, fact.evidence, len(play.ledger)) == (True, "msg 7", 1)


async def test_a_check_that_finds_nothing_allows_one_more_launch_with_the_same_key(stage):
    """S88."""
    play, state = await doubtful(stage, lambda *_: NotSent("boîte vide"))
    assert [key for _, key in play.ledger] == [KEY, KEY]
    assert told(play, state).startswith("Issue inconnue")
    assert [f.sent for f in await settled(play)] == [False]


async def hangs(_arguments, _context):
    await asyncio.Event().wait()


def fails(_arguments, _context):
    raise OSError


CHECKS = {
    "hangs": hangs,
    "fails": fails,
    "cannot tell": lambda *_: None,
    "says something else": lambda *_: True,
    "found another call": lambda *_: Sent("r2:1:0", "msg 8"),
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize("on_unknown", ["error", "pause"])
async def test_a_check_that_cannot_tell_leaves_the_call_unknown(stage, check, on_unknown):
    """S88: it fails, is slow, or found the effect of another run."""
    play, state = await doubtful(stage, check, on_unknown)
    assert [f.sent for f in await settled(play)] == [None]
    assert len(play.ledger) == 1
    if on_unknown == "pause":
        assert state.status == "paused"
    else:
        assert told(play, state).startswith("Issue inconnue")


async def decides(play, verdict, **fields):
    decision = Decision(verdict, ME, **fields)
    return await decide(play.ref, decision, lambda _: play.world, play.ports(play.inner))


async def test_an_approval_allows_exactly_one_more_launch_with_the_same_key(stage):
    play, _ = await doubtful(stage, on_unknown="pause")
    await decides(play, "approve")
    state = await play.drive()
    assert [key for _, key in play.ledger] == [KEY, KEY]
    assert (state.status, state.calls[0].request.why) == ("paused", "unknown")


async def test_a_rejection_allows_none(stage):
    play, _ = await doubtful(stage, on_unknown="pause")
    await decides(play, "reject")
    assert told(play, await play.drive()).startswith("Issue inconnue")
    assert len(play.ledger) == 1


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_a_human_says_whether_it_happened_and_nothing_is_launched(stage, verdict, happened):
    play, _ = await doubtful(stage, on_unknown="pause")
    for _ in range(2):
        await decides(play, verdict, call="fake_0_0", happened=happened, reason="vu")
    with pytest.raises(AlreadyDecidedError, match="cli:dupont"):
        await decides(play, verdict, call="fake_0_0", happened=not happened)
    with pytest.raises(AlreadyDecidedError, match="cli:dupont"):
        await decides(play, "approve", call="fake_0_0")
    said = "a bien agi" if happened else "n'a pas agi"
    assert told(play, await play.drive()) == f"Vérifié par un humain : l'appel {said}. vu"
    assert len(play.ledger) == 1
    [fact] = [e.payload for e in await play.events() if e.type == "approval.settled"]
    assert (fact.by, fact.happened) == (ME, happened)


async def test_a_call_that_has_not_left_did_not_happen(stage):
    play = stage([["signer"]])
    await play.start()
    await play.drive()
    with pytest.raises(NotUnknownError):
        await decides(play, "reject", happened=True)
    with pytest.raises(LoomError):
        await decides(play, "reject", call="autre")
