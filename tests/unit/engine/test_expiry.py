"""Questions that nobody answers in time, by the store's clock; questions asked once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from loom_ia.adapters.storage.memory import MemoryStore
from loom_ia.core.errors import RequestExpiredError, RunStoppedError
from loom_ia.core.events import ApprovalRejected, Principal
from loom_ia.core.plan import Asking
from loom_ia.runtime.decisions import Decision, decide

ME = Principal(id="cli:dupont", channel="cli")
T0 = datetime(2026, 9, 1, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Hours:
    """The clock of a store."""

    def __init__(self):
        self.now = T0

    def __call__(self):
        return self.now


async def paused(stage, script=(("signer",),), **asking):
    clock = Hours()
    play = stage(script, store=MemoryStore(clock))
    plan = replace(play.world.plan, asking=Asking(expires_in=HOUR, **asking))
    play.world = replace(play.world, plan=plan)
    await play.start()
    state = await play.drive()
    assert state.status == "paused"
    assert state.calls[0].request.expires_at == T0 + HOUR
    return play, clock


async def decides(play, verdict="approve", **fields):
    decision = Decision(verdict, ME, **fields)
    return await decide(play.ref, decision, lambda _: play.world, play.ports(play.inner))


def told(play, state):
    return list(play.results(state).values())


async def test_a_question_that_expired_is_answered_by_nobody(stage):
    """S34."""
    play, clock = await paused(stage)
    clock.now = T0 + HOUR
    state = await play.drive()
    assert (state.status, play.ledger) == ("completed", [])
    assert told(play, state) == ["Personne n'a tranché à temps : l'appel n'est pas parti."]
    [expired] = [e for e in await play.events() if e.type == "approval.expired"]
    assert not hasattr(expired.payload, "by")


async def test_an_expiry_may_end_the_run(stage):
    play, clock = await paused(stage, on_expiry="fail")
    clock.now = T0 + HOUR
    ending = (await play.drive()).ending
    assert (ending.status, ending.code, ending.resumable) == ("failed", "nobody_decided", False)
    assert "signer" in ending.params["calls"]


async def test_a_run_that_waits_is_not_driven_before_the_expiry(stage):
    play, clock = await paused(stage)
    clock.now = T0 + HOUR - timedelta(milliseconds=1)
    before = len(await play.events())
    assert (await play.drive(state=await play.state())).status == "paused"
    assert len(await play.events()) == before
    clock.now = T0 + HOUR
    assert (await play.drive(state=await play.state())).status == "completed"


async def test_a_decision_a_millisecond_before_the_expiry_holds(stage):
    play, clock = await paused(stage)
    clock.now = T0 + HOUR - timedelta(milliseconds=1)
    await decides(play)
    clock.now = T0 + 2 * HOUR
    assert (await play.drive()).status == "completed"
    assert len(play.ledger) == 1


@pytest.mark.parametrize("driven", [False, True])
@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_a_decision_at_the_expiry_is_refused_and_says_so(stage, verdict, driven):
    play, clock = await paused(stage)
    clock.now = T0 + HOUR
    if driven:
        await play.drive()
    with pytest.raises(RequestExpiredError, match="09:00:00"):
        await decides(play, verdict, call="fake_0_0")
    assert not [e for e in await play.events() if hasattr(e.payload, "by")]


async def test_a_clock_that_goes_back_does_not_lengthen_the_time_to_decide(stage):
    play, clock = await paused(stage)
    clock.now = T0 + HOUR
    await play.drive()
    clock.now = T0 - HOUR
    with pytest.raises(RequestExpiredError):
        await decides(play, call="fake_0_0")


async def test_the_store_judges_the_instant_of_a_decision_that_was_slow_to_come(stage):
    play, clock = await paused(stage)

    def late(_state):
        clock.now = T0 + HOUR
        return play.world

    with pytest.raises(RequestExpiredError):
        await decide(play.ref, Decision("approve", ME), late, play.ports(play.inner))
    assert "approval.granted" not in [e.type for e in await play.events()]


async def test_a_call_already_rejected_is_not_asked_about_again_in_the_run(stage):
    play, _ = await paused(stage, (("signer",), ("signer",)))
    await decides(play, "reject", reason="non")
    state = await play.drive()
    assert state.status == "completed"
    assert told(play, state) == [
        "Refusé par un humain. Motif : non",
        "Un humain a déjà refusé ce même appel ; il n'est pas demandé à nouveau.",
    ]


async def test_a_rejected_relaunch_is_told_unknown_and_not_refused(stage):
    play = stage([["payer"]])
    await play.start()

    async def act(arguments, context):
        raise OSError

    play.world.tools["payer"].bind = lambda arguments: lambda context: act(arguments, context)
    assert (await play.drive()).calls[0].request.why == "unknown"
    await decides(play, "reject")
    state = await play.drive()
    [text] = told(play, state)
    assert text.startswith("Issue inconnue")
    assert text.endswith("un humain a refusé de la relancer.")
    rejected = [e.payload for e in await play.events() if isinstance(e.payload, ApprovalRejected)]
    assert (len(rejected), state.rejected) == (1, frozenset())


async def test_nothing_is_decided_once_the_run_is_being_cancelled(stage):
    """S31."""
    play, _ = await paused(stage)
    await play.cancel()
    with pytest.raises(RunStoppedError):
        await decides(play)
    assert (await play.drive()).status == "cancelled"
    assert play.ledger == []
