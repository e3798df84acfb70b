"""What is built without being checked is what a check would have let through."""

from decimal import Decimal

import pytest

from loom_ia.core.effects import CallModel
from loom_ia.core.events import (
    CallerOptions,
    ModelCalled,
    ModelResponded,
    Principal,
    RunClaimed,
    RunCompleted,
    RunStarted,
    StepClosed,
    StepOpened,
    ToolCalled,
    ToolCompleted,
)
from loom_ia.core.model import Answer, Message, TextBlock, ToolCallBlock, Usage, user
from loom_ia.core.state import Call
from loom_ia.core.trusted import lean

CALL = Call("c", 0, "add", {"a": 1}, launches=1)
ANSWER = Answer(
    message=Message(role="assistant", blocks=(ToolCallBlock(id="c", name="add", arguments={}),)),
    stop="calls",
    usage=Usage(input=3),
    model="served",
)
MADE = (
    StepOpened.make(4),
    StepClosed.make(4),
    ToolCalled.make(CALL),
    ToolCalled.make(CALL, {"a": 2}),
    ToolCompleted.make("c", (TextBlock.of("ok"),), 1.5),
    ToolCompleted.make("c", (), 1.5, is_error=True),
    ModelCalled.make(CallModel(2, attempt=3, final=True), "M", {"system": "d"}, ("e",)),
    ModelResponded.make(2, "m", ANSWER, not_executed="no", cost=Decimal("0.1"), ms=2.0),
    RunClaimed.make("pid 1", crashed=True),
    RunCompleted.make("text", verified=False),
    Principal.make("key:1", "rest"),
    RunStarted.make(
        "a",
        user("hi\0"),
        Principal.make("me", "python"),
        language="en",
        ordinal=2,
        options=CallerOptions(context={"a": 1}),
    ),
    user("hi"),
    TextBlock.of("a\0b"),
    Usage(input=1) + Usage(output=2, estimated=True),
)


@pytest.mark.parametrize(
    "made", MADE, ids=[f"{n}-{type(made).__name__}" for n, made in enumerate(MADE)]
)
def test_what_is_made_without_a_check_is_what_a_check_gives(made):
    checked = type(made).model_validate(dict(made.__dict__))
    assert checked == made
    assert list(made.__dict__) == list(type(made).model_fields)
    assert made.model_dump_json() == checked.model_dump_json()
    assert made.model_copy() == made
    assert repr(made) == repr(checked)


def test_the_name_of_the_model_that_served_is_cleaned():
    answer = ANSWER.model_copy(update={"model": "m\0"})
    assert ModelResponded.make(1, "m", answer, not_executed="", cost=None, ms=0).model == "m\ufffd"


def test_a_lightened_model_says_the_same():
    block, heavy = TextBlock(text="a"), TextBlock(text="a")
    lean(block)
    assert block == heavy
    assert block.model_dump_json() == heavy.model_dump_json()
