"""Tokens counted without a tokenizer."""

from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from loom_ia.core.model import (
    ImageBlock,
    Message,
    ModelRequest,
    ModelSpec,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSpec,
    user,
)
from loom_ia.core.model.estimate import Estimate, characters

SPEC = ModelSpec(id="M", sdk="fake", model="m")


class Read(Sequence[Message]):
    """A conversation that counts how many of its messages are looked at."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages, self.reads = messages, 0

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, index):
        self.reads += 1
        return self.messages[index]

    def __iter__(self) -> Iterator[Message]:
        raise AssertionError


def asked(messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> ModelRequest:
    return ModelRequest(SPEC, "", messages, tools, 0)


def test_a_conversation_that_grew_costs_what_is_new_only():
    estimate, messages = Estimate(), [user("x" * 4) for _ in range(1000)]
    assert estimate.input(asked(Read(messages))) == 1000
    grown = Read([*messages, user("y" * 4)])
    assert estimate.input(asked(grown)) == 1001
    assert grown.reads <= 5


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=20))
def test_what_is_remembered_never_changes_a_count(steps):
    estimate = Estimate(remembered=2)
    conversations = [[user(str(n) * 3)] for n in range(3)]
    for which, length in steps:
        conversations[which] = [*conversations[which][: length + 1], user("z" * length)]
        request = asked(conversations[which])
        assert estimate.input(request) == Estimate().input(request)


def test_a_last_answer_without_tools_counts_none():
    tools = [ToolSpec(name="abcd", description="", input_schema={})]
    estimate = Estimate()
    assert [estimate.input(asked([], t)) for t in (tools, (), tools)] == [2, 0, 2]


def test_every_kind_of_block_has_a_size():
    result = ToolResultBlock(call_id="c", name="n", content=(TextBlock(text="abc"),))
    call = ToolCallBlock(id="c", name="ab", arguments={"a": 1})
    image = ImageBlock(uri="abc", media_type="image/png", name="d")
    blocks = (TextBlock(text="é"), ReasoningBlock(text="abcd"), result, call, image)
    assert [characters(block) for block in blocks] == [1, 4, 3, 10, 4]
