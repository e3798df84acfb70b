"""The model of tests."""

import pytest
from pydantic import ValidationError

from loom_ia.core.model import Answer, ModelRequest, ModelSpec, TextDelta, user
from loom_ia.core.ports import ModelError
from loom_ia.testing import ScriptedModel

SPEC = ModelSpec(id="M", sdk="fake", model="m")


def request(turn=0, text="bonjour") -> ModelRequest:
    return ModelRequest(SPEC, "", [user(text)], (), turn)


async def play(model: ScriptedModel, asked: ModelRequest) -> list[object]:
    return [chunk async for chunk in model.stream(asked)]


async def test_a_turn_is_a_text_or_an_entry_of_a_script():
    model = ScriptedModel("un", {"text": "deux", "tool_calls": [{"name": "t"}]})
    first = await play(model, request(0))
    assert [type(chunk) for chunk in first] == [TextDelta, Answer]
    assert (first[-1].message.text, first[-1].stop) == ("un", "end")
    second = (await play(model, request(1)))[-1]
    assert (second.message.calls[0].id, second.stop) == ("fake_1_0", "calls")


async def test_a_turn_can_be_made_from_the_request():
    async def later(asked: ModelRequest) -> str:
        return asked.messages[0].text.upper()

    model = ScriptedModel(lambda asked: asked.messages[0].text, later)
    assert (await play(model, request(0)))[-1].message.text == "bonjour"
    assert (await play(model, request(1)))[-1].message.text == "BONJOUR"


async def test_an_exception_is_raised_whether_given_or_made():
    model = ScriptedModel(
        ModelError(model="M", reason="x"), lambda _: TimeoutError(), {"error": "y"}
    )
    for turn, error in enumerate((ModelError, TimeoutError, ModelError)):
        with pytest.raises(error):
            await play(model, request(turn))


async def test_past_the_last_turn_the_script_is_exhausted():
    with pytest.raises(ModelError, match="script exhausted: turn 2, 1 written"):
        await play(ScriptedModel("x"), request(1))


async def test_what_was_asked_is_kept():
    model = ScriptedModel("x", "y")
    asked = [request(0), request(1)]
    for one in asked:
        await play(model, one)
    assert model.requests == asked


async def test_words_come_one_by_one_if_asked():
    chunks = await play(ScriptedModel("un deux  trois", by_word=True), request())
    assert "".join(c.text for c in chunks if isinstance(c, TextDelta)) == "un deux  trois"
    assert len(chunks) == 4


def test_a_wrong_turn_is_refused_when_it_is_given():
    with pytest.raises(ValidationError):
        ScriptedModel({"texte": "x"})
    with pytest.raises(TypeError, match="a turn is a text"):
        ScriptedModel(3)
