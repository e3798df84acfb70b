"""What any backend is sent, whatever a journal holds: a conversation that it takes."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.adapters.models.anthropic import wire
from loom_ia.adapters.models.files import Attachments
from loom_ia.adapters.models.openai import chat, responses
from loom_ia.core.fold import fold
from loom_ia.core.model import (
    Capabilities,
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
from loom_ia.sessions.history import history_of

SPECS = {
    "anthropic": ModelSpec(id="A", sdk="anthropic", model="claude-x"),
    "chat": ModelSpec(
        id="C",
        sdk="openai",
        model="gpt-x",
        capabilities=Capabilities(returns_reasoning=True),
    ),
    "responses": ModelSpec(id="R", sdk="openai", model="gpt-x", api="responses"),
}
ENCODE = {"anthropic": wire.encode, "chat": chat.encode, "responses": responses.encode}
TOOL = ToolSpec(name="lire", description="Lit.", input_schema={"type": "object"})
ORIGINS = [*(spec.origin for spec in SPECS.values()), "ailleurs"]
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def encoded(api, messages, **more):
    request = ModelRequest(
        SPECS[api], "Tu aides.", messages, more.pop("tools", (TOOL,)), turn=0, **more
    )
    return ENCODE[api](request, Attachments(request, {}))


# What each backend refuses


def check_anthropic(body):
    messages = body["messages"]
    assert messages[0]["role"] == "user"
    for before, message in zip([None, *messages], messages, strict=False):
        assert before is None or before["role"] != message["role"]
        assert message["content"]
        for block in message["content"]:
            assert block["type"] != "text" or block["text"].strip()
        results = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        asked = uses(before) if before else []
        assert results == asked
        kinds = [b["type"] for b in message["content"]]
        assert kinds[: len(results)] == ["tool_result"] * len(results)
        for block in message["content"]:
            if block["type"] == "tool_result":
                assert block["content"]
                check_texts(block["content"])
    assert not uses(messages[-1])
    last = messages[-1]["content"][-1]["type"]
    assert messages[-1]["role"] == "user" or last == "server_tool_use"


def uses(message):
    found = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
    assert all(map(ID.fullmatch, found))
    return found


def check_texts(parts):
    assert all(part["type"] != "text" or part["text"].strip() for part in parts)


def check_chat(body):
    messages, waiting = body["messages"], []
    assert messages[0]["role"] == "system"
    assert messages[1]["role"] == "user"
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            assert message["content"].strip()
            continue
        assert not waiting
        if message["role"] == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls", ())]
            assert waiting or message["content"]
            for call in message.get("tool_calls", ()):
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
        content = message["content"]
        assert content is None or content.strip() if not isinstance(content, list) else content
    assert not waiting
    assert messages[-1]["role"] != "assistant"


def check_responses(body):
    items, waiting, thought = body["input"], [], False
    for item in items:
        kind = item.get("type", item.get("role"))
        if kind == "function_call_output":
            assert not thought
            assert item["call_id"] == waiting.pop(0)
            assert item["output"]
            continue
        assert kind in {"function_call", "reasoning"} or not waiting
        if kind == "function_call":
            waiting.append(item["call_id"])
        if kind in {"user", "assistant"}:
            assert item["content"]
            assert all(part.get("text", "x").strip() for part in item["content"])
        assert not (thought and kind == "user")
        thought = kind == "reasoning"
    assert not waiting
    assert not thought
    assert items[-1].get("role") != "assistant"


CHECKS = {"anthropic": check_anthropic, "chat": check_chat, "responses": check_responses}

# Anything that a journal may hold

texts = st.sampled_from(["", " ", "\n", "Bonjour", "Référence D-2026-042"]).map(TextBlock.of)
images = st.just(ImageBlock(uri="artifact://t/s/x.png", media_type="image/png"))
OPAQUE = (
    "",
    '{"type": "reasoning", "encrypted_content": "zzz"}',
    '{"type": "redacted_thinking", "data": "z"}',
    '{"type": "server_tool_use", "id": "s"}',
)
thoughts = st.builds(
    lambda origin, opaque: ReasoningBlock(text="Je pèse.", provider=origin, opaque=opaque),
    st.sampled_from(ORIGINS),
    st.sampled_from(OPAQUE),
)


@st.composite
def conversations(draw):
    messages, count, open_calls = [], 0, []
    for _ in range(draw(st.integers(0, 8))):
        role = draw(st.sampled_from(["user", "assistant", "tool"]))
        if role == "user":
            blocks = draw(st.lists(texts | images, max_size=3))
        elif role == "assistant":
            blocks = draw(st.lists(texts | thoughts, max_size=3))
            for _ in range(draw(st.integers(0, 3))):
                count += 1
                malformed = draw(st.sampled_from([None, '{"a":']))
                call = ToolCallBlock(id=f"c{count}", name="lire", malformed=malformed)
                blocks.append(call)
                open_calls.append(call.id)
        else:
            ids = draw(st.lists(st.sampled_from([*open_calls, "perdu"]), max_size=4))
            parts = draw(st.lists(texts | images, max_size=2))
            failed = draw(st.booleans())
            blocks = [
                ToolResultBlock(call_id=i, name="lire", content=tuple(parts), is_error=failed)
                for i in ids
            ]
        messages.append(Message(role=role, blocks=tuple(blocks)))
    return messages


@pytest.mark.parametrize("api", SPECS)
@given(messages=conversations(), final=st.booleans(), tooled=st.booleans())
def test_whatever_was_said_a_backend_takes_it(api, messages, final, tooled):
    tools = (TOOL,) if tooled else ()
    if final:
        body = encoded(api, messages, tools=(), declared=tools, final=True, note="Conclus.")
    else:
        body = encoded(api, messages, tools=tools)
    CHECKS[api](body)
    called = any(message.calls for message in messages)
    assert bool(body.get("tools")) == (tooled or called)
    if body.get("tools") and (final or not tooled):
        choice = body["tool_choice"]
        assert (choice if isinstance(choice, str) else choice["type"]) == "none"
    assert "ailleurs" not in json.dumps(body)


@pytest.mark.parametrize("api", SPECS)
@given(messages=conversations())
def test_thoughts_go_back_only_to_who_had_them_and_only_in_the_loop(api, messages):
    """S07."""
    turn = max((n for n, m in enumerate(messages) if m.role == "user"), default=-1)
    mine = [
        block
        for n, message in enumerate(messages)
        for block in message.blocks
        if n > turn and isinstance(block, ReasoningBlock) and block.provider == SPECS[api].origin
    ]
    sent = json.dumps(encoded(api, messages))
    assert sent.count('"zzz"') + sent.count('"z"') + sent.count("Je pèse") <= len(mine)


def loop(api):
    """A tool loop of one model, its thought signed."""
    spec = SPECS[api]
    opaque = "sig" if api == "anthropic" else '{"type": "reasoning", "encrypted_content": "zzz"}'
    thought = ReasoningBlock(text="Je pèse.", provider=spec.origin, opaque=opaque)
    call = ToolCallBlock(id="c1", name="lire")
    result = ToolResultBlock(call_id="c1", name="lire", content=(TextBlock(text="1 840 €"),))
    return [
        user("Combien ?"),
        Message(role="assistant", blocks=(thought, TextBlock(text="Je lis."), call)),
        Message(role="tool", blocks=(result,)),
    ]


MARKS = {"anthropic": '"sig"', "chat": '"reasoning_content"', "responses": '"zzz"'}


@pytest.mark.parametrize("api", SPECS)
@pytest.mark.parametrize("other", SPECS)
def test_a_model_that_takes_over_gets_text_call_and_result_but_no_foreign_thought(api, other):
    """S07."""
    sent = json.dumps(encoded(other, loop(api)), ensure_ascii=False)
    assert (MARKS[other] in sent) == (api == other)
    for part in ("Je lis.", '"lire"', "1 840 €"):
        assert part in sent


@pytest.mark.parametrize("api", SPECS)
def test_once_the_loop_is_over_no_thought_is_sent_to_anyone(api):
    done = Message(role="assistant", blocks=(TextBlock(text="1 840 €."),))
    later = [*loop(api), done, user("Et TTC ?")]
    sent = json.dumps(encoded(api, later), ensure_ascii=False)
    assert MARKS[api] not in sent
    assert "Je pèse" not in sent


def test_a_server_that_does_not_want_visible_thinking_back_is_not_given_it():
    """S17."""
    spec = SPECS["chat"].model_copy(update={"capabilities": Capabilities()})
    request = ModelRequest(spec, "", loop("chat"), (TOOL,), turn=1)
    assert "Je pèse" not in json.dumps(
        chat.encode(request, Attachments(request, {})), ensure_ascii=False
    )


@pytest.mark.parametrize("api", SPECS)
def test_an_answer_refused_or_compacted_takes_its_thought_along(api):
    """S16: a thought alone is refused, so is one whose answer is gone."""
    question, answer, _ = loop(api)
    alone = Message(role="assistant", blocks=answer.blocks[:1])
    body = encoded(api, [question, alone])
    assert MARKS[api] not in json.dumps(body)
    CHECKS[api](body)


def test_a_pause_of_the_provider_is_resumed_as_it_was():
    """S80: what its own tools did goes back to it, at the end, so that it goes on."""
    work = ReasoningBlock(
        provider=SPECS["anthropic"].origin, opaque='{"type": "server_tool_use", "id": "s1"}'
    )
    paused = Message(role="assistant", blocks=(TextBlock(text="Je cherche."), work))
    last = encoded("anthropic", [user("Cherche"), paused])["messages"][-1]
    assert last["role"] == "assistant"
    assert last["content"][-1] == {"type": "server_tool_use", "id": "s1"}
    words = Message(role="assistant", blocks=(TextBlock(text="Je cherche."),))
    assert encoded("anthropic", [user("Cherche"), words])["messages"][-1]["role"] == "user"


# Any journal, cut anywhere

NAMES = ["lire", "ranger", "noter", "envoyer", "payer", "signer", "refuser", "casser", "rater"]
SCRIPTS = st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), min_size=1, max_size=3)


@given(script=SCRIPTS, rounds=st.integers(1, 4), approve=st.booleans())
async def test_from_any_prefix_of_a_journal_a_backend_takes_what_follows(
    stage, script, rounds, approve
):
    """Interrupted, resumed, repaired, finalizing, or told to the next run of the session."""
    play = stage(script, max_iterations=rounds)
    await play.start()
    await play.to_the_end(approve=approve)
    events = await play.events()
    for length in range(1, len(events) + 1):
        state = fold(events[:length])
        last = {"tools": (), "declared": play.world.specs, "final": True, "note": "Conclus."}
        history = [*history_of(events[:length], "fr").messages, user("Et ensuite ?")]
        for api, check in CHECKS.items():
            check(encoded(api, state.messages, tools=play.world.specs))
            check(encoded(api, state.messages, **last))
            check(encoded(api, history, tools=()))
