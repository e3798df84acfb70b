"""The model that plays a script."""

import pytest
from pydantic import ValidationError

from loom_ia.adapters.models.fake import Settings
from loom_ia.core.model import Answer, ModelRequest, ModelSpec, TextDelta, ToolSpec, user
from loom_ia.core.ports import ModelError

SPEC = ModelSpec(id="SIMULE", sdk="fake", model="fake-1")
PRICE = {"name": "prix_ttc", "arguments": {"montant_ht": 1250, "taux_tva": 10}}


def request(turn=0, *, system="", messages=(), tools=(), final=False) -> ModelRequest:
    return ModelRequest(SPEC, system, messages, tools, turn, final)


async def play(script: list[object], asked: ModelRequest) -> list[object]:
    async with Settings.model_validate({"script": script}).open(None, SPEC) as model:
        return [chunk async for chunk in model.stream(asked)]


async def test_the_entry_at_the_turn_of_the_run_is_played():
    script = [{"text": "un"}, {"text": "deux"}]
    for _ in range(2):
        assert (await play(script, request(1)))[-1].message.text == "deux"
        assert (await play(script, request(0)))[-1].message.text == "un"


async def test_the_text_comes_by_words_and_nothing_of_it_is_lost():
    text = " Pour 1 250 €,\n  voilà. "
    *deltas, last = await play([{"text": text}], request())
    assert all(isinstance(delta, TextDelta) for delta in deltas)
    assert len(deltas) == 6
    assert "".join(delta.text for delta in deltas) == text == last.message.text


async def test_calls_are_named_after_their_place():
    chunks = await play([{"text": "x"}, {"tool_calls": [PRICE, PRICE]}], request(1))
    (last,) = chunks
    assert isinstance(last, Answer)
    assert [call.id for call in last.message.calls] == ["fake_1_0", "fake_1_1"]
    assert last.message.calls[0].arguments == {"montant_ht": 1250, "taux_tva": 10}
    assert last.stop == "calls"


async def test_a_last_answer_is_the_scripted_one_too():
    (last,) = await play([{"tool_calls": [PRICE]}], request(final=True))
    assert last.message.calls


async def test_past_its_end_the_script_is_said_to_be_exhausted():
    with pytest.raises(ModelError, match=r"model SIMULE: script exhausted: turn 2, 1 written"):
        await play([{"text": "x"}], request(1))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("surcharge", "surcharge"),
        ({"message": "surcharge"}, "surcharge"),
        ({"kind": "rate_limit"}, "rate_limit"),
        ({"kind": "rate_limit", "message": "x"}, "rate_limit: x"),
    ],
)
async def test_an_error_of_the_script_is_one_of_the_model(error, words):
    with pytest.raises(ModelError) as caught:
        await play([{"error": error}], request())
    assert str(caught.value) == f"model SIMULE: {words}"


async def test_a_delay_is_waited_for():
    assert (await play([{"text": "x", "delay": 0.001}], request()))[-1].message.text == "x"


async def test_tokens_count_the_system_the_messages_the_tools_and_the_answer():
    tool = ToolSpec(name="abcd", description="efgh", input_schema={})
    asked = request(system="s" * 40, messages=[user("m" * 20)], tools=[tool])
    usage = (await play([{"text": "r" * 9}], asked))[-1].usage
    assert (usage.input, usage.output, usage.estimated) == (
        (40 + 20 + 4 + 4 + 2 + 3) // 4,
        3,
        False,
    )


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"script": []},
        {"script": [{}]},
        {"script": [{"delay": 1}]},
        {"script": [{"text": "x", "extra": 1}]},
        {"script": [{"tool_calls": [{"arguments": {}}]}]},
        {"script": [{"tool_calls": [{"name": "a", "arguments": []}]}]},
        {"script": [{"text": "x", "delay": -1}]},
        {"script": [{"text": "x"}], "unknown": 1},
    ],
)
def test_a_wrong_script_is_refused(params):
    with pytest.raises(ValidationError):
        Settings.model_validate(params)
