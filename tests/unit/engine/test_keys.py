"""Idempotency keys: reserved before the effect, whoever meets them (rule E6, case S38)."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from loom_ia.adapters.idempotency.table import KeyTable
from loom_ia.adapters.storage.memory.store import MemoryStore
from loom_ia.core.events import ApprovalSettled, Principal
from loom_ia.core.model import TextBlock
from loom_ia.core.plan import ToolPlan
from loom_ia.core.ports import InvalidArgumentsError, KeyRule, RunRef, ToolError, ToolOutput
from loom_ia.testing import ScriptedModel
from loom_ia.testing.journals import Cut, Cutting, Gated
from loom_ia.tools.idempotency import business_key

KEY = "t:D-42:poli"
ME = Principal(id="cli:dupont", channel="cli")
T0 = datetime(2026, 9, 1, 8, tzinfo=UTC)
SCHEMA = {"properties": {"numero": {}, "ton": {"default": "poli"}}}
RULE = KeyRule("relancer", business_key(lambda args: f"{args['numero']}:{args['ton']}", SCHEMA))
TOLD = "Issue inconnue"


class Office:
    """Runs that share a journal, a store of keys, and the ledger of what they sent."""

    def __init__(self, stage, **rules):
        self.stage, self.rules = stage, {"side_effects": "irreversible", **rules}
        self.store, self.keys, self.ledger = (
            MemoryStore(lambda: T0),
            KeyTable(),
            [],
        )

    def run(self, name, act, arguments=None, *, tenant="t", rule=RULE, **plan):
        arguments = {"numero": "D-42"} if arguments is None else arguments
        calls = arguments if isinstance(arguments, list) else [arguments]
        play = self.stage([], store=self.store)
        spec = play.world.tools["envoyer"].spec.model_copy(update={"name": "relancer"})
        tool = Acting(spec, self.ledger, act)
        turns = [{"tool_calls": [{"name": "relancer", "arguments": a}]} for a in calls]
        play.world = replace(
            play.world,
            plan=replace(play.world.plan, tools={"relancer": ToolPlan(**self.rules | plan)}),
            model=ScriptedModel(*turns, "fini"),
            tools={"relancer": tool},
            specs=[spec],
            keys={"relancer": rule},
        )
        play.ref = RunRef(tenant, f"s-{name}", name, name)
        known = play.ports

        def ports(store):
            return replace(known(store), keys=self.keys, index=self.store.index)

        play.ports = ports
        return play

    async def drive(self, *arguments, **options):
        play = self.run(*arguments, **options)
        await play.start()
        return play, await play.drive()


class Acting:
    def __init__(self, spec, ledger, act):
        self.spec, self.ledger, self.act = spec, ledger, act

    def bind(self, arguments):
        if "numero" not in arguments and arguments:
            msg = "numero manque"
            raise InvalidArgumentsError(msg)

        async def launch(context):
            await self.act(self.ledger, context)
            return ToolOutput((TextBlock(text=f"envoyé par {context.run_id}"),))

        return launch


async def sends(ledger, context):
    ledger.append((context.run_id, context.idempotency_key))


async def breaks(ledger, context):
    await sends(ledger, context)
    msg = "coupé"
    raise OSError(msg)


async def refuses(ledger, context):
    msg = "rien n'est parti"
    raise ToolError(msg)


@pytest.fixture
def office(stage):
    return Office(stage)


def said(play, state):
    told = play.results(state)
    return [told[name] for name in sorted(told)]


async def codes(play):
    return [e.payload.code for e in await play.events() if e.type == "tool.refused"]


async def launches(play):
    return sum(e.type == "tool.called" for e in await play.events())


@pytest.mark.parametrize("spelling", ["D-42", "D\u201142", " D-42\u00a0", "D\u201342"], ids=ascii)
async def test_a_second_run_gets_the_first_result_and_sends_nothing(office, spelling):
    await office.drive("r1", sends)
    play, state = await office.drive("r2", sends, {"numero": spelling})
    assert office.ledger == [("r1", "t:D-42:poli")]
    assert said(play, state) == [
        f"[Déjà fait, sous la clé d'idempotence {KEY}. Voici le premier résultat.]envoyé par r1"
    ]
    [fact] = [e.payload for e in await play.events() if e.type == "tool.completed"]
    assert (fact.recalled, await launches(play)) == ("r1/fake_0_0", 0)


async def test_accents_are_one_key_however_they_are_composed(office):
    await office.drive("r1", sends, {"numero": "caf\u00e9"})
    await office.drive("r2", sends, {"numero": "cafe\u0301"})
    assert len(office.ledger) == 1


async def test_the_same_key_with_other_arguments_is_a_conflict(office):
    await office.drive("r1", sends, {"numero": "D-42"})
    play, state = await office.drive("r2", sends, {"numero": "D-42", "ton": "poli"})
    assert len(office.ledger) == 1
    assert await codes(play) == ["key_conflict"]
    assert said(play, state)[0].startswith("Non exécuté : la clé d'idempotence t:D-42:poli désigne")


async def test_the_same_key_of_another_tenant_is_another_key(office):
    await office.drive("r1", sends)
    await office.drive("r2", sends, tenant="u")
    assert office.ledger == [("r1", "t:D-42:poli"), ("r2", "u:D-42:poli")]


async def test_a_run_that_meets_a_call_in_progress_is_told_at_once(office):
    arrived, go = asyncio.Event(), asyncio.Event()

    async def slow(ledger, context):
        arrived.set()
        await go.wait()
        await sends(ledger, context)

    first = asyncio.create_task(office.drive("r1", slow))
    await arrived.wait()
    play, state = await office.drive("r2", sends)
    assert state.status == "completed"
    assert await codes(play) == ["key_in_progress"]
    go.set()
    await first
    assert [run for run, _ in office.ledger] == ["r1"]
    _, state = await office.drive("r3", sends)
    assert len(office.ledger) == 1


async def test_a_call_left_unknown_is_not_launched_by_another_run_until_it_is_settled(office):
    first, _ = await office.drive("r1", breaks, on_unknown="pause")
    play, state = await office.drive("r2", sends)
    assert await codes(play) == ["key_unknown"]
    assert said(play, state)[0].startswith(TOLD)
    await first.decide(ApprovalSettled(call_id="fake_0_0", by=ME, happened=True, text="fait"))
    play, state = await office.drive("r3", sends)
    assert said(play, state)[0].endswith("Voici le premier résultat.]fait")
    assert [run for run, _ in office.ledger] == ["r1"]


async def test_a_call_that_a_human_says_did_not_happen_gives_its_key_back(office):
    async def fails_first(ledger, context):
        raise OSError

    first, _ = await office.drive("r1", fails_first, on_unknown="pause")
    await first.answer_humans()
    await office.drive("r2", sends)
    assert [run for run, _ in office.ledger] == ["r2"]


@pytest.mark.parametrize("arguments", [{"autre": 1}, {}], ids=["arguments", "no key"])
async def test_a_refused_call_burns_no_key(office, arguments):
    play, _ = await office.drive("r1", sends, arguments)
    assert len(await codes(play)) == 1
    assert office.keys._kept == {}


async def test_a_call_that_says_it_did_not_act_gives_its_key_back(office):
    await office.drive("r1", refuses)
    await office.drive("r2", sends)
    assert [run for run, _ in office.ledger] == ["r2"]


async def test_a_driver_that_died_before_the_intent_finds_its_own_reservation(office):
    play = office.run("r1", sends)
    await play.start()
    reserve, died = office.keys.reserve, []

    async def dying(claim, *, over=None):
        held = await reserve(claim, over=over)
        if not died:
            died.append(held)
            raise Cut
        return held

    office.keys.reserve = dying
    with pytest.raises(Cut):
        await play.drive()
    other, _ = await office.drive("r2", sends)
    assert await codes(other) == ["key_in_progress"]
    await play.drive(steal=True)
    assert [run for run, _ in office.ledger] == ["r1"]


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("kept", [False, True])
async def test_wherever_a_driver_dies_the_action_is_done_once(stage, kept, idempotent):
    """Another run comes before it is resumed, and another one after."""
    met = set()
    for cut in range(12):
        office = Office(stage, idempotent=idempotent)
        play = office.run("r1", sends)
        await play.start()
        with suppress(Cut):
            await play.drive(Gated(office.store, Cutting(cut, kept=kept)))
        before, _ = await office.drive("r2", sends)
        state = await play.drive(steal=True)
        after, _ = await office.drive("r3", sends)
        assert state.status == "completed"
        assert len({key for _, key in office.ledger}) <= 1
        assert len(office.ledger) <= 1, (cut, office.ledger)
        if not office.ledger:
            assert said(play, state)[0].startswith(TOLD)
            assert await codes(after) == ["key_unknown"]
        met |= {*(await codes(before)), *(await codes(after))}
    assert {"key_in_progress"} <= met
    assert ("key_unknown" in met) == (kept and not idempotent)


async def test_a_result_kept_before_its_driver_died_comes_back_as_it_was(office):
    play = office.run("r1", sends, settles=True)
    await play.start()
    with suppress(Cut):
        await play.drive(Gated(office.store, Cutting(4, kept=False)))
    assert len(office.ledger) == 1
    state = await play.drive(steal=True)
    assert said(play, state) == ["envoyé par r1"]
    [fact] = [e.payload for e in await play.events() if e.type == "tool.completed"]
    assert fact.recalled == "r1/fake_0_0"
    assert await launches(play) == 1


async def test_two_calls_of_one_turn_with_one_key_act_once(office):
    play, _ = await office.drive("r1", sends, [{"numero": "D-42"}, {"numero": "D-42"}])
    assert len(office.ledger) == 1
    assert (await launches(play), await codes(play)) == (1, [])


async def test_the_keys_of_a_run_cancelled_before_the_call_left_are_free(office):
    play = office.run("r1", sends)
    await play.start()
    reserve = office.keys.reserve

    async def then_cancelled(claim, *, over=None):
        held = await reserve(claim, over=over)
        if claim.ref.run_id == "r1":
            await play.cancel()
        return held

    office.keys.reserve = then_cancelled
    assert (await play.drive()).status == "cancelled"
    await office.drive("r2", sends)
    assert [run for run, _ in office.ledger] == ["r2"]


@pytest.mark.parametrize("side_effects", [None, "reversible", "irreversible"])
async def test_an_exception_gives_the_key_back_where_it_is_an_error_and_not_a_doubt(
    stage, side_effects
):
    office = Office(stage, side_effects=side_effects)
    await office.drive("r1", breaks)
    other, _ = await office.drive("r2", sends)
    doubtful = side_effects == "irreversible"
    assert await codes(other) == (["key_unknown"] if doubtful else [])
    assert len(office.ledger) == (1 if doubtful else 2)


async def test_a_technical_key_is_that_of_one_call_and_no_other(stage):
    office = Office(stage)
    rule = KeyRule("relancer")
    await office.drive("r1", sends, [{}, {}], rule=rule)
    await office.drive("r2", sends, rule=rule)
    assert [key for _, key in office.ledger] == ["r1:1:0", "r1:2:0", "r2:1:0"]


async def test_the_journal_says_under_which_key_a_call_left(office):
    play, _ = await office.drive("r1", sends)
    [called] = [e.payload for e in await play.events() if e.type == "tool.called"]
    assert called.key == "t:D-42:poli"
