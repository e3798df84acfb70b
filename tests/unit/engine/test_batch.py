"""A batch of calls, and the call of a model: what is written, when, and what the model is told."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from loom_ia.core.events import RunResumed
from loom_ia.core.fold import fold
from loom_ia.core.model import (
    Answer,
    Discard,
    Message,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolSpec,
)
from loom_ia.core.plan import ToolPlan
from loom_ia.core.ports import InvalidArgumentsError, ModelError, ToolError, ToolOutput
from loom_ia.engine.driver import Drive
from loom_ia.testing import ScriptedModel
from loom_ia.testing.journals import Gated, Suspending

GRACE = 0.001
"""Seconds: enough to order timers, which is all that these tests do with them."""
PURE = ToolPlan(side_effects="none")
SENDING = ToolPlan(side_effects="irreversible")


class Doing:
    """A tool that does what its function does."""

    def __init__(self, name, act):
        self.spec = ToolSpec(name=name, description="", input_schema={})
        self.act = act

    def bind(self, arguments):
        async def launch(context):
            return ToolOutput((TextBlock(text=str(await self.act(arguments, context))),))

        return launch


async def play_of(stage, calls, *tools, store=None, plan=None, **world):
    """Start a stage whose model asks for `calls` in one turn: names, or (name, arguments)."""
    play = stage(store=store, **(plan or {}))
    asked = [(c, {}) if isinstance(c, str) else c for c in calls]
    turn = {"tool_calls": [{"name": name, "arguments": args} for name, args in asked]}
    known = {tool.spec.name: tool for tool, _ in tools}
    plans = {tool.spec.name: rules for tool, rules in tools}
    play.world = replace(
        play.world,
        plan=replace(play.world.plan, tools=plans),
        tools=known,
        specs=[tool.spec for tool in known.values()],
        model=ScriptedModel(turn, "fini"),
        **world,
    )
    await play.start()
    return play


async def forever(arguments, context):
    await asyncio.Event().wait()


async def ok(arguments, context):
    return "ok"


def text_of(play, state, n=0):
    return play.results(state)[f"fake_0_{n}"]


def types(events, prefix="tool."):
    return [e.type for e in events if e.type.startswith(prefix)]


async def test_results_are_told_in_the_order_of_the_calls_whatever_came_first(stage):
    doors = [asyncio.Event() for _ in range(5)]
    doors[-1].set()

    async def after_the_next(arguments, context):
        n = arguments["n"]
        await doors[n].wait()
        if n:
            doors[n - 1].set()
        return n

    tool = Doing("x", after_the_next)
    play = await play_of(stage, [("x", {"n": n}) for n in range(5)], (tool, PURE))
    state = await play.drive()
    ended = [e.payload.call_id for e in await play.events() if e.type == "tool.completed"]
    assert ended == [f"fake_0_{n}" for n in reversed(range(5))]
    told = [b for m in state.messages if m.role == "tool" for b in m.blocks]
    assert [b.call_id for b in told] == [f"fake_0_{n}" for n in range(5)]
    assert [b.content[0].text for b in told] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("plan", [PURE, SENDING])
async def test_forty_calls_are_never_more_than_sixteen_at_once(stage, plan):
    running, most = 0, 0

    async def counted(arguments, context):
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(3 + arguments["n"] % 5):
            await asyncio.sleep(0)
        running -= 1
        return arguments["n"]

    calls = [("x", {"n": n}) for n in range(40)]
    play = await play_of(stage, calls, (Doing("x", counted), plan))
    state = await play.drive()
    assert most <= 16
    assert plan is SENDING or most == 16
    assert list(play.results(state).values()) == [str(n) for n in range(40)]


async def test_an_unknown_tool_is_an_error_result_that_names_the_others(stage):
    play = await play_of(stage, ["nul", "x"], (Doing("x", ok), PURE))
    state = await play.drive()
    assert state.status == "completed"
    assert text_of(play, state) == "L'outil nul n'existe pas. Outils disponibles : x."
    assert text_of(play, state, 1) == "ok"


async def test_unreadable_arguments_never_leave(stage):
    play = await play_of(stage, ["x"], (Doing("x", ok), PURE))

    class Stammering:
        async def stream(self, request):
            blocks = (ToolCallBlock(id="fake_0_0", name="x", malformed='{"a": '),)
            if request.turn:
                blocks = (TextBlock(text="fini"),)
            yield Answer(message=Message(role="assistant", blocks=blocks), stop="calls")

    play.world = replace(play.world, model=Stammering())
    state = await play.drive()
    assert text_of(play, state).startswith("Arguments illisibles")
    assert types(await play.events()) == ["tool.refused"]


async def test_wrong_arguments_go_back_to_the_model_and_never_leave(stage):
    class Strict(Doing):
        def bind(self, arguments):
            message = "n : un entier est attendu"
            raise InvalidArgumentsError(message)

    play = await play_of(stage, ["x"], (Strict("x", ok), SENDING))
    state = await play.drive()
    assert text_of(play, state) == "n : un entier est attendu"
    assert types(await play.events()) == ["tool.refused"]
    assert state.launches == 0


async def test_calls_past_the_limit_are_refused_inside_the_batch(stage):
    play = await play_of(stage, ["x"] * 4, (Doing("x", ok), PURE), plan={"max_calls": 2})
    state = await play.drive()
    told = list(play.results(state).values())
    assert told[:2] == ["ok", "ok"]
    assert all("limite de 2 appels" in text for text in told[2:])
    assert state.launches == 2


async def test_a_pure_tool_out_of_time_is_an_error_and_is_not_made_again(stage):
    tool = Doing("x", forever)
    play = await play_of(stage, ["x"], (tool, PURE), timeouts={"x": 0.001})
    state = await play.drive()
    assert text_of(play, state) == "L'outil n'a pas répondu en 0.001 s."
    assert types(await play.events()) == ["tool.called", "tool.completed"]


@pytest.mark.parametrize("plan", [SENDING, ToolPlan(side_effects="reversible"), ToolPlan()])
async def test_any_other_tool_out_of_time_is_unknown_and_told_so(stage, plan):
    play = await play_of(stage, ["x"], (Doing("x", forever), plan), timeouts={"x": 0.001})
    state = await play.drive()
    assert state.status == "completed"
    assert text_of(play, state).startswith("Issue inconnue")
    assert "(délai dépassé)" in text_of(play, state)
    assert types(await play.events()) == ["tool.called", "tool.unknown", "tool.abandoned"]


async def test_a_tool_that_raises_because_it_was_stopped_is_unknown_all_the_same(stage):
    async def wrapped(arguments, context):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            message = "requête abandonnée"
            raise OSError(message) from None

    play = await play_of(stage, ["x"], (Doing("x", wrapped), ToolPlan()), timeouts={"x": 0.001})
    state = await play.drive()
    assert text_of(play, state).startswith("Issue inconnue")
    unknown = next(e.payload for e in await play.events() if e.type == "tool.unknown")
    assert (unknown.reason, unknown.detail) == ("timeout", "OSError: requête abandonnée")


@pytest.mark.parametrize(
    ("plan", "told"),
    [(PURE, "CancelledError"), (ToolPlan(), "CancelledError"), (SENDING, "Issue inconnue")],
)
async def test_a_tool_that_cancels_itself_is_not_made_again(stage, plan, told):
    async def itself(arguments, context):
        raise asyncio.CancelledError

    play = await play_of(stage, ["x"], (Doing("x", itself), plan))
    state = await play.drive()
    assert text_of(play, state).startswith(told)
    assert types(await play.events()).count("tool.called") == 1


class Deaf:
    """A tool that goes on when it is asked to stop, until its door opens."""

    def __init__(self):
        self.door, self.begun, self.asked = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def __call__(self, arguments, context):
        self.begun.set()
        while not self.door.is_set():
            try:
                await self.door.wait()
            except asyncio.CancelledError:
                self.asked.set()
        return "parti"


def short_grace(play):
    ports = play.ports
    play.ports = lambda store: replace(ports(store), grace=GRACE)


async def until(play, name, times=1):
    """Wait until the journal holds so many events of a type."""
    while [e.type for e in await play.events()].count(name) < times:  # noqa: ASYNC110  a store has no event to wait for
        await asyncio.sleep(0)


async def test_a_tool_that_does_not_stop_is_said_still_running_and_its_end_is_reported(stage):
    deaf = Deaf()
    play = await play_of(stage, ["x"], (Doing("x", deaf), SENDING), timeouts={"x": 0.001})
    short_grace(play)
    state = await play.drive()
    assert state.status == "completed"
    assert text_of(play, state).startswith("Issue inconnue")
    unknown = next(e.payload for e in await play.events() if e.type == "tool.unknown")
    assert unknown.still_running
    deaf.door.set()
    await until(play, "tool.reported")
    events = await play.events()
    assert events[-1].payload.blocks == (TextBlock(text="parti"),)
    assert fold(events).ending == state.ending


async def test_a_pure_tool_that_does_not_stop_is_not_made_again_for_ever(stage):
    deaf = Deaf()
    play = await play_of(stage, ["x"], (Doing("x", deaf), PURE), timeouts={"x": 0.001})
    short_grace(play)
    state = await play.drive()
    deaf.door.set()
    assert text_of(play, state) == "L'outil n'a pas répondu en 0.001 s."
    assert types(await play.events()).count("tool.called") == 1


async def test_a_cancelled_run_names_the_calls_that_did_not_stop(stage):
    deaf = Deaf()
    play = await play_of(stage, ["x"], (Doing("x", deaf), SENDING))
    short_grace(play)
    drive = Drive(play.scene())
    task = asyncio.create_task(drive.run())
    await deaf.begun.wait()
    await play.cancel()
    drive.flight.halt("cancelled")
    state = await task
    deaf.door.set()
    assert state.status == "cancelled"
    assert (await play.events())[-1].payload.still_running == ("fake_0_0",)


async def test_an_end_reported_before_the_driver_says_it_gave_up_takes_its_place(stage):
    deaf = Deaf()

    class Slow:
        """Holds the first outcome until the deaf tool was given up, then ended."""

        def __init__(self):
            self.holding = True

        async def enter(self, operation):
            if operation != "append" or not self.holding or not done.is_set():
                return
            self.holding = False
            await deaf.asked.wait()
            await asyncio.sleep(GRACE)
            deaf.door.set()
            await until(play, "tool.reported")

        async def leave(self, operation):
            pass

    async def quick(arguments, context):
        done.set()
        return "ok"

    done = asyncio.Event()
    tools = (Doing("x", deaf), SENDING), (Doing("y", quick), SENDING)
    play = await play_of(stage, ["x", "y", "y"], *tools, timeouts={"x": 0.001})
    short_grace(play)
    state = await play.drive(Gated(play.inner, Suspending([]), Slow()))
    assert state == fold(await play.events())
    assert list(play.results(state).values()) == ["parti", "ok", "ok"]


def raising(error):
    async def act(arguments, context):
        raise error

    return act


@pytest.mark.parametrize(
    ("plan", "error", "told"),
    [
        (SENDING, OSError("coupé"), "Issue inconnue"),
        (SENDING, ToolError("adresse refusée"), "adresse refusée"),
        (replace(SENDING, idempotent=True), OSError("coupé"), "OSError: coupé"),
        (ToolPlan(side_effects="reversible"), OSError("coupé"), "OSError: coupé"),
        (ToolPlan(), OSError("coupé"), "OSError: coupé"),
        (PURE, OSError("coupé"), "OSError: coupé"),
    ],
)
async def test_what_a_tool_raises_is_told_by_what_it_may_have_done(stage, plan, error, told):
    play = await play_of(stage, ["x"], (Doing("x", raising(error)), plan))
    state = await play.drive()
    assert state.status == "completed"
    assert text_of(play, state).startswith(told)
    blocks = [b for m in state.messages if m.role == "tool" for b in m.blocks]
    assert blocks[0].is_error


async def test_iterations_spent_force_a_last_answer_whose_calls_are_not_executed(stage):
    play = stage([["lire"]] * 3, max_iterations=2, fallback="repli")
    await play.start()
    state = await play.drive()
    assert state.status == "completed"
    assert state.ending.text == "repli"
    assert len(play.ledger) == 2
    assert play.results(state)["fake_2_0"].startswith("Non exécuté")
    assert play.world.model.requests[-1].tools == ()
    assert "sans appeler d'outil" in play.world.model.requests[-1].note
    assert state.turns == 3


async def test_a_run_that_failed_in_its_last_answer_resumes_to_a_last_answer(stage):
    play = stage(max_iterations=1)
    turns = [{"tool_calls": [{"name": "lire"}]}, ModelError(model="S", reason="surchargé")]
    play.world = replace(play.world, model=ScriptedModel(*turns))
    await play.start()
    state = await play.drive()
    assert (state.status, state.ending.resumable) == ("failed", True)
    await play.decide(RunResumed(by=state.started.principal))
    play.world = replace(play.world, model=ScriptedModel(turns[0], "fini"))
    state = await play.drive()
    assert state.ending.text == "fini"
    assert [r.final for r in play.world.model.requests] == [True]


@pytest.mark.parametrize("plan", [PURE, SENDING])
async def test_a_run_out_of_driving_time_fails_and_goes_on_when_it_is_resumed(stage, plan):
    limit = {"timeout": timedelta(seconds=0.02)}
    play = await play_of(stage, ["x"] * 20, (Doing("x", forever), plan), plan=limit)
    state = await play.drive()
    assert (state.status, state.ending.code) == ("failed", "agent_timeout")
    assert state.ending.resumable
    assert types(await play.events()).count("tool.called") == 16
    await play.decide(RunResumed(by=state.started.principal))
    play.world = replace(
        play.world,
        tools={"x": Doing("x", ok)},
        plan=replace(play.world.plan, timeout=timedelta(hours=1)),
    )
    state = await play.drive()
    assert state.status == "completed"
    told = list(play.results(state).values())
    first = ["ok"] * 16 if plan is PURE else [told[0]] * 16
    assert told == [*first, *["ok"] * 4]
    assert plan is PURE or told[0].startswith("Issue inconnue")


async def test_the_intent_of_each_effect_is_synced_just_before_its_own_launch(stage):
    seen = []

    async def look(arguments, context):
        written = [e.payload.call_id for e in play.inner_events() if e.type == "tool.called"]
        seen.append((context.call_id, written))
        return "ok"

    play = await play_of(stage, ["x"] * 3, (Doing("x", look), SENDING))
    session = play.inner.journal._shelves.tenants["t"].sessions["s"]
    play.inner_events = lambda: session.runs["r"]
    store = Gated(play.inner)
    await play.drive(store)
    intents = [w for w in store.appends if any(d.payload.type == "tool.called" for d in w.drafts)]
    called = [[d.payload.type for d in w.drafts].count("tool.called") for w in intents]
    assert called == [1, 1, 1]
    assert all(w.sync and w.drafts[-1].payload.type == "tool.called" for w in intents)
    assert all(call == f"fake_0_{n}" and call in ids for n, (call, ids) in enumerate(seen))


async def test_the_intents_of_pure_calls_go_together_in_one_write_without_a_sync(stage):
    play = await play_of(stage, ["x"] * 5, (Doing("x", ok), PURE))
    store = Gated(play.inner)
    await play.drive(store)
    [write] = [w for w in store.appends if any(d.payload.type == "tool.called" for d in w.drafts)]
    assert not write.sync
    assert [d.payload.type for d in write.drafts].count("tool.called") == 5


async def test_nothing_leaves_when_its_intent_is_refused(stage):
    launched = []

    async def act(arguments, context):
        launched.append(context.call_id)
        return "ok"

    play = await play_of(stage, ["x", "x"], (Doing("x", act), SENDING))

    class Refusing:
        """Asks to cancel just before the second intent."""

        async def enter(self, operation):
            if operation == "append" and launched and (await play.state()).cancel is None:
                await play.cancel()

        async def leave(self, operation):
            pass

    state = await play.drive(Gated(play.inner, Suspending([]), Refusing()))
    assert launched == ["fake_0_0"]
    assert state.status == "cancelled"
    called = [e.payload.call_id for e in await play.events() if e.type == "tool.called"]
    assert called == ["fake_0_0"]


async def test_a_stop_from_outside_writes_no_more_intents(stage):
    play = await play_of(stage, ["x"] * 40, (Doing("x", forever), SENDING))
    drive = Drive(play.scene())
    task = asyncio.create_task(drive.run())
    await until(play, "tool.called", 16)
    drive.flight.halt("cancelled")
    state = await task
    assert state.ending is None
    assert types(await play.events()).count("tool.called") == 16
    assert [c.status for c in state.calls] == ["unknown"] * 16 + ["asked"] * 24


class Talking:
    """Shows words, then ends as it is told to."""

    def __init__(self, end):
        self.end = end

    async def stream(self, request):
        yield TextDelta(text="Bon")
        yield TextDelta(text="jour")
        if isinstance(self.end, Exception):
            raise self.end
        if self.end is not None:
            yield self.end


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (ModelError(model="S", reason="surchargé"), "surchargé"),
        (ValueError("adaptateur"), "ValueError: adaptateur"),
        (None, "cut before its end"),
    ],
)
async def test_a_model_that_gives_no_answer_fails_the_run_and_voids_what_it_showed(
    stage, end, reason
):
    play, shown = stage(), []
    play.world = replace(play.world, model=Talking(end))
    await play.start()
    state = await play.drive(show=shown.append)
    assert (state.status, state.ending.resumable) == ("failed", True)
    assert reason in state.ending.params["reason"]
    kinds = [type(s) for s in shown if isinstance(s, TextDelta | Discard)]
    assert kinds == [TextDelta, TextDelta, Discard]
    events = await play.events()
    assert [e.type for e in events[-2:]] == ["model.failed", "run.failed"]


async def test_a_stopped_model_call_voids_what_it_showed_and_is_made_again(stage):
    play, shown, begun = stage(), [], asyncio.Event()

    class Hanging:
        async def stream(self, request):
            yield TextDelta(text="Bon")
            begun.set()
            await asyncio.Event().wait()

    calm = play.world
    play.world = replace(calm, model=Hanging())
    await play.start()
    drive = Drive(play.scene(show=shown.append))
    task = asyncio.create_task(drive.run())
    await begun.wait()
    drive.flight.halt("cancelled")
    state = await task
    assert state.ending is None
    assert [type(s) for s in shown if isinstance(s, TextDelta | Discard)] == [TextDelta, Discard]
    play.world = calm
    state = await play.drive()
    assert state.ending.text == "fini"


async def test_the_same_wrong_call_again_and_again_ends_with_the_iterations(stage):
    play = stage([["nul"]] * 12, max_iterations=10, fallback="repli")
    await play.start()
    state = await play.drive()
    assert (state.status, state.ending.text, state.turns) == ("completed", "repli", 11)
    assert len(play.results(state)) == 11


async def test_a_tool_withdrawn_while_its_call_waited_is_an_error_result(stage):
    play = stage([["signer"]])
    await play.start()
    assert (await play.drive()).status == "paused"
    left = {name: tool for name, tool in play.world.tools.items() if name != "signer"}
    rules = {name: rule for name, rule in play.world.plan.tools.items() if name != "signer"}
    play.world = replace(
        play.world,
        tools=left,
        specs=[tool.spec for tool in left.values()],
        plan=replace(play.world.plan, tools=rules),
    )
    state = await play.to_the_end()
    assert text_of(play, state).startswith("L'outil signer n'existe pas")
    assert not play.ledger
