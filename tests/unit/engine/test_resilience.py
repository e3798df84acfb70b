import asyncio
from dataclasses import replace
from decimal import Decimal

import pytest

from loom_ia.core.failures import (
    ModelAuthError,
    ModelError,
    ModelOverflowError,
    ModelQuotaError,
    ModelRefusedError,
    ModelRequestError,
    ModelTransientError,
    classify,
)
from loom_ia.core.model import (
    Announced,
    Answer,
    CallDelta,
    Capabilities,
    CircuitBreaker,
    Discard,
    ImageBlock,
    Message,
    ModelSpec,
    Pricing,
    ReasoningDelta,
    Retry,
    TextBlock,
    TextDelta,
    Timeouts,
    ToolCallBlock,
    Usage,
    user,
)
from loom_ia.core.model.stops import MEANINGS, stop_of
from loom_ia.core.pricing import cost, plain, prices_of
from loom_ia.engine.driver import Drive
from loom_ia.engine.resilience import Breaker, Chain, Seat, backoff, breakers_of
from loom_ia.testing import ManualClock, ScriptedModel

NOW = Retry(delay=0)
A = ModelSpec(id="A", sdk="fake", model="a", retry=NOW)
B = ModelSpec(id="B", sdk="fake", model="b", retry=NOW)
DONE = Message(role="assistant", blocks=(TextBlock(text="fini"),))


def busy(**known):
    return ModelTransientError(model="A", reason="surchargé", **known)


def chain_of(stage, *models, specs=(A, B)):
    play = stage()
    seats = [Seat(spec, model) for spec, model in zip(specs, models, strict=False)]
    play.world = replace(
        play.world, spec=seats[0].spec, model=seats[0].model, fallbacks=tuple(seats[1:])
    )
    return play


class Failing:
    """Counts what it was asked, and fails each time."""

    def __init__(self, *errors, then=None):
        self.errors, self.then, self.asked = list(errors), then, 0

    async def stream(self, request):
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        yield Answer(message=self.then or DONE, stop="end", usage=Usage(input=1, output=1))


async def started(play):
    await play.start()
    return await play.drive()


async def test_a_passing_failure_is_tried_again_and_each_attempt_is_a_fact(stage):
    model = Failing(busy(usage=Usage()), busy())
    play = chain_of(stage, model)
    state = await started(play)
    assert (state.status, model.asked) == ("completed", 3)
    told = [e.payload for e in await play.events() if e.type.startswith("model.")]
    assert [p.type for p in told] == [
        *["model.called", "model.failed"] * 2,
        "model.called",
        "model.responded",
    ]
    assert [p.attempt for p in told if p.type == "model.called"] == [1, 2, 3]
    assert [p.cost for p in told if p.type == "model.failed"] == [Decimal(0), None]
    assert state.cost_known is None


async def test_a_model_is_asked_exactly_as_often_as_it_may_be(stage):
    model = Failing(*[busy() for _ in range(9)])
    state = await started(chain_of(stage, model))
    assert (state.status, state.ending.code, state.ending.resumable) == (
        "failed",
        "model_transient",
        True,
    )
    assert model.asked == 3


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (ModelQuotaError, 1),
        (ModelAuthError, 1),
        (ModelRefusedError, 1),
        (ModelOverflowError, 1),
        (ModelError, 1),
        (ModelTransientError, 3),
    ],
)
async def test_what_will_not_pass_goes_at_once_to_the_next_model(stage, error, asked):
    first = Failing(*[error(model="A", reason="non") for _ in range(5)])
    play = chain_of(stage, first, Failing())
    state = await started(play)
    assert (state.status, first.asked, state.serving) == ("completed", asked, "B")
    switched = [e.payload for e in await play.events() if e.type == "model.switched"]
    assert [(p.left, p.model, p.code) for p in switched] == [("A", "B", error.code)]


async def test_an_invalid_request_goes_only_to_a_model_set_up_apart(stage):
    wrong = ModelRequestError(model="A", reason="temperature")
    play = chain_of(stage, Failing(wrong), other := Failing())
    state = await started(play)
    assert (state.ending.code, other.asked) == ("model_request", 0)
    apart = B.model_copy(update={"params": {"top_k": 1}})
    play = chain_of(stage, Failing(wrong), Failing(), specs=(A, apart))
    assert (await started(play)).status == "completed"


async def test_a_run_stays_on_the_model_it_went_to_also_when_it_is_resumed(stage):
    call = Message(role="assistant", blocks=(ToolCallBlock(id="x", name="lire"),))
    first = Failing(ModelQuotaError(model="A", reason="vide"))
    second = Failing(then=call)
    play = chain_of(stage, first, second)
    await play.start()
    drive = Drive(play.scene(show=lambda item: cut(drive, item)))

    def cut(drive, item):
        if getattr(item, "type", "") == "tool.completed":
            drive.flight.halt("cancelled")

    await drive.run()
    second.then = None
    state = await play.drive()
    assert (state.status, first.asked, second.asked) == ("completed", 1, 2)
    parts = [e.payload.parts for e in await play.events() if e.type == "config.changed"]
    assert parts == []


async def test_partial_text_never_enters_the_history_and_its_tokens_are_flagged(stage):
    class Cut:
        asked = 0

        async def stream(self, request):
            self.asked += 1
            yield Announced(usage=Usage(input=40, output=1))
            yield TextDelta(text="Le devis est de " * 4)
            if self.asked == 1:
                raise busy()
            yield Answer(message=DONE, stop="end", usage=Usage(input=40, output=5))

    shown = []
    play = chain_of(stage, Cut())
    await play.start()
    state = await play.drive(show=shown.append)
    assert [m.text for m in state.messages] == ["Bonjour", "fini"]
    kinds = [type(s) for s in shown if isinstance(s, TextDelta | Discard)]
    assert kinds == [TextDelta, Discard, TextDelta]
    failed = next(e.payload for e in await play.events() if e.type == "model.failed")
    assert failed.usage == Usage(input=40, output=16, estimated=True)
    assert failed.cost is None


async def test_the_wait_is_the_longer_of_ours_and_what_the_provider_asks(stage):
    spec = A.model_copy(update={"retry": Retry(delay=1, max_delay=30)})
    chain = Chain((Seat(spec, Failing()),))
    again = chain.failed(chain.seats[0], busy(retry_after=7), 1, "r")
    assert again.delay == 7
    assert chain.failed(chain.seats[0], busy(retry_after=31), 1, "r") is None


def test_delays_double_up_to_the_longest_and_spread_between_runs():
    for tries, whole in ((1, 1), (2, 2), (3, 4), (9, 30)):
        drawn = {backoff(1, 30, tries, f"run-{n}") for n in range(50)}
        assert len(drawn) > 40
        assert min(drawn) >= whole / 2
        assert max(drawn) <= whole


async def test_a_wait_is_cut_by_a_halt(stage):
    spec = A.model_copy(update={"retry": Retry(delay=60, max_delay=600)})
    play = chain_of(stage, Failing(busy()), specs=(spec,))
    await play.start()
    scene = play.scene()
    drive = Drive(scene)
    task = asyncio.create_task(drive.run())
    await scene.ports.clock.until_sleeping()
    drive.flight.halt("cancelled")
    assert (await task).ending is None


@pytest.mark.parametrize(
    ("timeouts", "told"),
    [
        (Timeouts(first_token=0.01), "first token"),
        (Timeouts(idle=0.01), "silent"),
        (Timeouts(total=0.03, idle=60), "no whole answer"),
    ],
)
async def test_a_silent_model_is_cut_by_the_delay_it_exceeds(stage, timeouts, told):
    class Silent:
        async def stream(self, request):
            yield Announced(usage=Usage(input=1))
            if "first" not in told:
                yield CallDelta(name="lire", arguments="{")
            await asyncio.Event().wait()

    spec = A.model_copy(update={"timeouts": timeouts, "retry": Retry(max_attempts=1)})
    state = await started(chain_of(stage, Silent(), specs=(spec,)))
    assert state.ending.code == "model_transient"
    assert told in state.ending.params["reason"]


def broken(clock, failures=2):
    breaker = Breaker(CircuitBreaker(failures=failures, cooldown=60), clock)
    for _ in range(failures):
        breaker.enter()
        breaker.leave(busy())
    return breaker


def test_an_open_breaker_lets_one_call_try_after_its_cooldown():
    clock = ManualClock()
    breaker = broken(clock)
    assert breaker.wait == 60
    clock.advance(60)
    assert breaker.wait == 0
    breaker.enter()
    assert breaker.wait > 0
    breaker.leave(busy())
    assert breaker.wait == 60
    clock.advance(60)
    breaker.enter()
    breaker.leave(None)
    assert breaker.wait == 0
    breaker.enter()
    breaker.leave(busy())
    assert breaker.wait == 0


def test_a_halted_trial_leaves_its_place_to_another():
    clock = ManualClock()
    breaker = broken(clock)
    clock.advance(60)
    breaker.enter()
    breaker.leave(asyncio.CancelledError())
    assert breaker.wait == 0


@pytest.mark.parametrize(
    "error", [ModelAuthError, ModelQuotaError, ModelRequestError, ModelRefusedError, ModelError]
)
def test_what_says_nothing_of_the_providers_health_never_opens_a_breaker(error):
    breaker = Breaker(CircuitBreaker(failures=1), ManualClock())
    breaker.enter()
    breaker.leave(error(model="A", reason="x"))
    assert breaker.wait == 0


def test_a_breaker_is_shared_by_a_model_and_a_credential():
    same, other = A.model_copy(update={"id": "C"}), A.model_copy(update={"api_key_env": "B_KEY"})
    found = breakers_of([A, same, other.model_copy(update={"id": "D"})], ManualClock())
    assert found["A"] is found["C"]
    assert found["A"] is not found["D"]


async def test_a_run_leaves_a_model_set_aside_without_asking_it(stage):
    first = Failing()
    play = chain_of(stage, first, Failing())
    play.world = replace(play.world, breaker=broken(ManualClock()))
    state = await started(play)
    assert (state.status, first.asked, state.serving) == ("completed", 0, "B")
    alone = chain_of(stage, first)
    alone.world = replace(alone.world, breaker=broken(ManualClock()))
    state = await started(alone)
    assert (state.ending.code, state.ending.resumable) == ("model_suspended", True)
    assert first.asked == 0


async def test_a_model_that_cannot_see_is_skipped_once_there_is_an_image(stage):
    seeing, blind = Capabilities(vision=True), Capabilities()
    specs = (
        A.model_copy(update={"capabilities": seeing}),
        B.model_copy(update={"capabilities": blind}),
        B.model_copy(update={"id": "C", "model": "c", "capabilities": seeing}),
    )
    quota = ModelQuotaError(model="A", reason="vide")
    models = (Failing(quota), middle := Failing(), Failing())
    play = chain_of(stage, *models, specs=specs)
    image = user("Vois", ImageBlock(uri="artifact://t/s/x.png", media_type="image/png"))
    await play.start()
    play_scene = play.scene(history=[image, DONE])
    state = await Drive(play_scene).run()
    assert (state.serving, middle.asked) == ("C", 0)


async def test_a_conversation_too_long_for_a_model_goes_to_a_longer_one(stage):
    short = A.model_copy(update={"capabilities": Capabilities(context_window=1)})
    play = chain_of(stage, first := Failing(), Failing(), specs=(short, B))
    state = await started(play)
    assert (state.serving, first.asked) == ("B", 0)
    alone = chain_of(stage, first, specs=(short,))
    assert (await started(alone)).status == "completed"
    assert first.asked == 1


@pytest.mark.parametrize("stop", ["length", "other", "pause"])
async def test_calls_of_a_cut_answer_never_run_and_the_model_is_told(stage, stop):
    call = ToolCallBlock(id="x", name="envoyer", arguments={"à": "x"})
    cut = Answer(message=Message(role="assistant", blocks=(call,)), stop=stop)
    play = chain_of(stage, Answering(cut, Answer(message=DONE, stop="end")))
    state = await started(play)
    assert (state.status, state.turns, play.ledger) == ("completed", 2, [])
    assert "coupé" in play.results(state)["x"]


class Answering:
    def __init__(self, *answers):
        self.answers = list(answers)

    async def stream(self, request):
        yield self.answers.pop(0)


async def test_a_pause_goes_on_within_the_iterations(stage):
    half = Answer(message=Message(role="assistant", blocks=(TextBlock(text="je"),)), stop="pause")
    play = chain_of(stage, Answering(half, Answer(message=DONE, stop="end")))
    state = await started(play)
    assert (state.ending.text, state.turns) == ("fini", 2)


@pytest.mark.parametrize("stop", ["refusal", "filtered"])
async def test_a_refusal_is_billed_never_repeated_and_leaves_nothing(stage, stop):
    priced = A.model_copy(update={"pricing": Pricing(input=Decimal(1), output=Decimal(1))})
    refused = Answer(message=DONE, stop=stop, usage=Usage(input=10, output=2), detail="cyber")
    play = chain_of(stage, Answering(refused), specs=(priced,))
    state = await started(play)
    assert (state.ending.code, state.ending.params["reason"]) == ("model_refused", "cyber")
    assert state.cost_known == Decimal("0.000012")
    assert [m.text for m in state.messages] == ["Bonjour"]


async def test_an_answer_cut_before_its_first_word_is_no_answer(stage):
    empty = Answer(message=Message(role="assistant", blocks=()), stop="length")
    state = await started(chain_of(stage, Answering(empty)))
    assert state.ending.code == "model_truncated"


async def test_an_answer_without_usage_has_an_estimate_and_no_cost(stage):
    play = chain_of(stage, Answering(Answer(message=DONE, stop="end")))
    state = await started(play)
    assert state.usage.estimated
    assert state.usage.input > 0
    assert state.usage.output > 0
    assert state.cost_known is None


def test_a_model_that_serves_under_another_name_has_the_price_of_that_name():
    cheap = Pricing(input=Decimal(1), output=Decimal(1))
    dear = Pricing(input=Decimal(9), output=Decimal(9))
    haiku = ModelSpec(id="H", sdk="anthropic", model="claude-haiku-4-5-latest", pricing=cheap)
    opus = ModelSpec(id="O", sdk="anthropic", model="claude-opus-4-5", pricing=dear)
    prices, usage = prices_of([haiku, opus]), Usage(input=1_000_000)
    for served, dollars in (
        ("", 1),
        ("claude-haiku-4-5-20251001", 1),
        ("anthropic/claude-haiku-4-5", 1),
        ("claude-opus-4-5-20251101", 9),
        ("claude-inconnu", None),
    ):
        assert cost(haiku, served, usage, prices) == dollars
    assert cost(haiku, "", None, prices) is None
    assert cost(haiku, "", Usage(), prices) == 0
    assert cost(haiku, "", usage.model_copy(update={"estimated": True}), prices) is None
    assert plain("gpt-4o-2024-08-06") == "gpt-4o"


@pytest.mark.parametrize(
    ("status", "codes", "message", "kind"),
    [
        (529, ("overloaded_error",), "", ModelTransientError),
        (429, ("rate_limit_exceeded",), "", ModelTransientError),
        (429, ("insufficient_quota",), "You exceeded", ModelQuotaError),
        (400, ("invalid_request_error",), "Your credit balance is too low", ModelQuotaError),
        (400, ("invalid_request_error",), "prompt is too long: 9 > 8", ModelOverflowError),
        (400, ("context_length_exceeded",), "", ModelOverflowError),
        (400, ("invalid_request_error",), "temperature", ModelRequestError),
        (401, (), "", ModelAuthError),
        (403, ("permission_error",), "", ModelAuthError),
        (404, ("not_found_error",), "", ModelRequestError),
        (302, (), "", ModelRequestError),
        (503, (), "<html>", ModelTransientError),
        (None, ("overloaded_error",), "", ModelTransientError),
        (None, (), "?", ModelTransientError),
        (None, ("invalid_request_error", "tool_use_failed"), "", ModelTransientError),
        (None, ("invalid_request_error",), "", ModelRequestError),
    ],
)
def test_the_words_of_a_provider_come_before_its_status(status, codes, message, kind):
    assert classify(status, codes, message) is kind


def test_every_stop_reason_has_a_meaning_and_an_unknown_one_is_other():
    anthropic = "end_turn max_tokens stop_sequence tool_use pause_turn refusal"
    words = {
        "anthropic": (*anthropic.split(), "model_context_window_exceeded"),
        "chat": ("stop", "length", "tool_calls", "content_filter", "function_call"),
        "responses": ("completed", "max_output_tokens", "content_filter"),
    }
    for api, known in words.items():
        assert all(stop_of(api, word) != "other" for word in known)
        assert stop_of(api, "une_nouvelle_raison") == "other"
        assert {stop_of(api, word) for word in known} <= set(MEANINGS)


async def test_a_simulated_model_fails_by_the_word_of_its_script(stage):
    turn = {"error": {"kind": "quota", "message": "vide"}}
    play = chain_of(stage, ScriptedModel(turn), ScriptedModel("secours"))
    state = await started(play)
    assert state.ending.text == "secours"


async def test_what_a_model_thinks_reaches_no_follower(stage):
    class Thinking:
        async def stream(self, request):
            yield ReasoningDelta(text="secret")
            yield Answer(message=DONE, stop="end")

    shown = []
    play = chain_of(stage, Thinking())
    await play.start()
    state = await play.drive(show=shown.append)
    assert state.status == "completed"
    assert "secret" not in repr(shown)
