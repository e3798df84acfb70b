"""Streams as servers write them, well or badly: what the readers make of each."""

import json
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.adapters.models.anthropic import wire
from loom_ia.adapters.models.openai import chat, responses
from loom_ia.adapters.models.sse import Decoder
from loom_ia.core.failures import ModelError, ModelTransientError
from loom_ia.core.model import (
    ModelSpec,
    Pricing,
    ReasoningBlock,
    ReasoningDelta,
    TextDelta,
    ToolCallBlock,
    Usage,
)
from loom_ia.core.pricing import prices_of, total

CLAUDE = ModelSpec(id="A", sdk="anthropic", model="claude-x")
GPT = ModelSpec(id="O", sdk="openai", model="gpt-x")


def read(reader, events):
    """Pieces, then the answer."""
    pieces = [piece for event in events for piece in reader.feed(event)]
    reader.done()
    return pieces, reader.answer()


# Messages


def start(**usage):
    said = {"input_tokens": 10, "output_tokens": 1, **usage}
    return {"type": "message_start", "message": {"model": "claude-x", "usage": said}}


def block(index, content, *deltas):
    yield {"type": "content_block_start", "index": index, "content_block": content}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def end(reason, usage=None, **delta):
    told = {"stop_reason": reason, **delta}
    yield {"type": "message_delta", "delta": told, "usage": usage or {"output_tokens": 5}}
    yield {"type": "message_stop"}


def message(*blocks, stop="end_turn", **more):
    parts = [event for n, one in enumerate(blocks) for event in block(n, *one)]
    return read(wire.Reader(CLAUDE), [start(), *parts, *end(stop, **more)])


def text(written):
    return ({"type": "text", "text": ""}, {"type": "text_delta", "text": written})


def use(*written, name="maintenant"):
    parts = [{"type": "input_json_delta", "partial_json": one} for one in written]
    return ({"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}, *parts)


@pytest.mark.parametrize("written", [(), ("",)])
def test_a_tool_without_parameters_has_an_empty_object(written):
    """S01 a, b."""
    _, answer = message(use(*written), stop="tool_use")
    (call,) = answer.message.calls
    assert (call.name, call.arguments, call.malformed) == ("maintenant", {}, None)
    assert answer.stop == "calls"


def test_arguments_that_end_in_the_middle_are_kept_as_they_are():
    """S01 c."""
    _, answer = message(use('{"a":'), stop="tool_use")
    (call,) = answer.message.calls
    assert (call.arguments, call.malformed) == ({}, '{"a":')


def test_an_error_inside_a_stream_is_classified_as_its_status_would_be():
    """S02 a."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(ModelTransientError, match="Overloaded"):
        read(wire.Reader(CLAUDE), [error])
    with pytest.raises(ModelTransientError):
        read(chat.Reader(GPT), [{"error": {"message": "overloaded", "code": 503}}])
    failed = {"status": "failed", "error": {"code": "server_error", "message": "panne"}}
    with pytest.raises(ModelTransientError, match="panne"):
        read(responses.Reader(GPT), [{"type": "response.failed", "response": failed}])


def test_what_nobody_knows_is_ignored_and_counted():
    """S05."""
    strange = [
        {"type": "ping"},
        {"type": "nouvel_evenement", "x": 1},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "hum_delta", "hum": "?"}},
    ]
    first, *rest = block(0, *text("Bonjour"))
    _, answer = read(wire.Reader(CLAUDE), [start(), first, *strange, *rest, *end("end_turn")])
    assert (answer.message.text, answer.ignored) == ("Bonjour", 2)
    odd = {"object": "chat.completion.heartbeat"}
    _, answer = read(chat.Reader(GPT), [odd, chunk(content="Bonjour"), last("stop")])
    assert (answer.message.text, answer.ignored) == ("Bonjour", 1)
    done = {"status": "completed", "output": [said("Bonjour")]}
    events = [{"type": "autre"}, {"type": "response.completed", "response": done}]
    assert read(responses.Reader(GPT), events)[1].ignored == 1


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("tool_use", "calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "pause"),
        ("refusal", "refusal"),
        ("une_nouvelle_raison", "other"),
    ],
)
def test_each_reason_to_stop_has_its_meaning(reason, stop):
    """S80."""
    assert message(text("Bon"), stop=reason)[1].stop == stop


def test_the_category_of_a_refusal_comes_in_the_last_delta():
    """S80."""
    details = {"type": "refusal", "category": "cyber", "explanation": "non"}
    for blocks in ((), (text("Je "),), (text("Je "), use('{"a":'))):
        _, answer = message(*blocks, stop="refusal", stop_details=details)
        assert (answer.stop, answer.detail) == ("refusal", "cyber")


def test_a_message_without_a_reason_to_stop_was_cut():
    with pytest.raises(ModelTransientError, match="without a stop reason"):
        message(text("Bon"), stop=None)


def test_thoughts_are_kept_with_their_signature_and_hidden_ones_as_they_came():
    thinking = (
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Je pèse."},
        {"type": "signature_delta", "signature": "sig"},
    )
    hidden = ({"type": "redacted_thinking", "data": "zzz"},)
    pieces, answer = message(thinking, hidden, text("Oui."))
    told, redacted, _ = answer.message.blocks
    assert (told.text, told.opaque, told.provider) == ("Je pèse.", "sig", CLAUDE.origin)
    assert json.loads(redacted.opaque) == {"type": "redacted_thinking", "data": "zzz"}
    assert [p for p in pieces if isinstance(p, ReasoningDelta)] == [ReasoningDelta(text="Je pèse.")]
    assert answer.message.text == "Oui."


ZERO = {"input_tokens": 0, "output_tokens": 0}


@pytest.mark.parametrize(
    "usage", [None, ZERO, {"input_tokens": -1}, {"input_tokens": "?"}, {"input_tokens": 3}]
)
def test_a_messages_usage_that_is_missing_or_impossible_is_unknown(usage):
    """S14."""
    first = {"type": "message_start", "message": {"usage": usage}}
    last_ = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    events = [first, *block(0, *text("x")), last_, {"type": "message_stop"}]
    assert read(wire.Reader(CLAUDE), events)[1].usage is None


def test_each_model_that_a_provider_asked_has_its_own_price():
    """S83."""
    dear = CLAUDE.model_copy(
        update={"pricing": Pricing(input=Decimal(10), output=Decimal(50)), "model": "claude-opus"}
    )
    cheap = ModelSpec(
        id="B", sdk="anthropic", model="haiku", pricing=Pricing(input=Decimal(1), output=Decimal(5))
    )
    prices = prices_of([dear, cheap])

    def dollars(written, served="haiku-20261001"):
        entry = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        usage = {
            "input_tokens": 100,
            "output_tokens": 200,
            "iterations": [
                {**entry, "type": "message", "input_tokens": 1000, "output_tokens": written},
                {
                    **entry,
                    "type": "fallback_message",
                    "model": served,
                    "input_tokens": 100,
                    "output_tokens": 200,
                },
            ],
        }
        _, answer = message(text("Oui."), usage=usage)
        return answer.usage, total(dear, answer, answer.usage, prices)

    assert dollars(0) == (Usage(input=100, output=200), Decimal("0.0011"))
    assert dollars(299) == (Usage(input=1100, output=499), Decimal("0.02605"))
    assert dollars(299, "modele-inconnu")[1] is None


# Chat


def chunk(finish=None, **delta):
    return {"model": "gpt-x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def last(finish, **delta):
    return chunk(finish, **delta)


def piece(name=None, arguments=None, **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def calls(*pieces, finish="tool_calls"):
    events = [chunk(tool_calls=[one]) for one in pieces]
    _, answer = read(chat.Reader(GPT), [*events, last(finish)])
    return answer


def told(answer):
    return [(c.id, c.name, c.arguments if c.malformed is None else c.malformed)
            for c in answer.message.calls]  # fmt: skip


@pytest.mark.parametrize(
    ("places", "ids"),
    [
        ([{"index": 0}] * 3, ["a", "b", "c"]),
        ([{}] * 3, ["a", "b", "c"]),
        ([{"index": 0}, {"index": 2}, {"index": 5}], ["a", "b", "c"]),
        ([{"index": 0}, {"index": 1}, {"index": 2}], ["a", "a", "a"]),
        ([{"index": 0}, {"index": 1}, {"index": 2}], ["", "", ""]),
        ([{}] * 3, ["", "", ""]),
    ],
)
def test_calls_are_told_apart_whatever_their_indexes_and_ids(places, ids):
    """S10 a, b, c, d, f."""
    whole = [
        piece("envoyer", f'{{"n": {n}}}', id=identifier, **place)
        for n, (place, identifier) in enumerate(zip(places, ids, strict=True))
    ]
    answer = calls(*whole)
    assert told(answer) == [(i, "envoyer", {"n": n}) for n, i in enumerate(ids)]


def test_a_new_id_on_every_piece_of_one_call_makes_one_call():
    """S10 e."""
    pieces = [piece("envoyer", '{"n"', id="x1", index=0)]
    pieces += [piece("envoyer", ": 1", id="x2", index=0), piece("envoyer", "}", id="x3", index=0)]
    assert told(calls(*pieces)) == [("x1", "envoyer", {"n": 1})]


@pytest.mark.parametrize(
    "names",
    [[None, "envo", "yer", None], ["envoyer"] * 4, ["envoyer", "", "", ""]],
)
def test_a_name_that_is_null_in_pieces_or_repeated_is_one_name(names):
    """S11."""
    written = [None, None, '{"n": ', "1}"]
    pieces = [
        piece(name, arguments, id="x" if n == 0 else None, index=0)
        for n, (name, arguments) in enumerate(zip(names, written, strict=True))
    ]
    assert told(calls(*pieces)) == [("x", "envoyer", {"n": 1})]


def test_an_empty_list_of_calls_asks_for_none():
    """S11."""
    _, answer = read(
        chat.Reader(GPT), [chunk(content=None, tool_calls=[]), last("tool_calls", content="Oui.")]
    )
    assert (answer.message.text, answer.message.calls, answer.stop) == ("Oui.", (), "end")


@pytest.mark.parametrize(
    ("events", "stop", "written"),
    [
        ([last("stop", content="fin"), chunk()], "end", "fin"),
        ([chunk(content="a"), last("stop", content="b")], "end", "ab"),
        ([chunk(content="a"), last("stop"), chunk(content="b")], "end", "ab"),
        ([chunk(content="a"), last("length")], "length", "a"),
        ([chunk(content="a"), last("content_filter")], "filtered", "a"),
        ([chunk(content="a"), last("nouveau")], "other", "a"),
        ([chunk(content="a")], "other", "a"),
    ],
)
def test_a_finish_reason_may_stand_anywhere(events, stop, written):
    """S13 a, c, e, f."""
    _, answer = read(chat.Reader(GPT), events)
    assert (answer.stop, answer.message.text) == (stop, written)


def test_stop_with_calls_asks_for_them():
    """S13 b."""
    assert calls(piece("lire", "{}", id="a"), finish="stop").stop == "calls"


def test_a_cut_call_is_kept_as_it_was_written():
    """S13 d."""
    answer = calls(piece("lire", '{"n": 1', id="a"), finish="length")
    assert (answer.stop, told(answer)) == ("length", [("a", "lire", '{"n": 1')])


def used(**counts):
    return {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, **counts}}


CACHED = {"prompt_tokens_details": {"cached_tokens": 4}}


@pytest.mark.parametrize(
    ("events", "usage"),
    [
        ([used(**CACHED)], Usage(input=6, output=5, cache_read=4)),
        ([], None),
        ([{"choices": [], "usage": None}], None),
        ([used(prompt_tokens=0, completion_tokens=0)], None),
        ([used(completion_tokens=2), used(completion_tokens=3)], Usage(input=10, output=3)),
        ([used(prompt_tokens_details={"cached_tokens": 11})], None),
        ([used(prompt_tokens=None)], None),
        ([used(completion_tokens=True)], None),
    ],
)
def test_usage_is_the_last_that_can_be_believed_or_none(events, usage):
    """S14."""
    _, answer = read(chat.Reader(GPT), [chunk(content="x"), last("stop"), *events])
    assert answer.usage == usage


def test_usage_on_every_chunk_is_not_summed():
    """S14 e."""
    events = [
        {**chunk(content="x"), "usage": used(completion_tokens=n)["usage"]} for n in (1, 2, 3)
    ]
    assert read(chat.Reader(GPT), [*events, last("stop")])[1].usage == Usage(input=10, output=3)


THOUGHT, SPOKEN = "Je pèse </thin le pour.", "Oui : 1 250,00 €."


@given(st.lists(st.integers(0, 70)))
def test_visible_thinking_cut_anywhere_is_told_from_the_text(cuts):
    """S17."""
    whole = f"\n<think>{THOUGHT}</think>\n\n{SPOKEN}"
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    parts = [whole[a:b] for a, b in pairwise(places)]
    pieces, answer = read(chat.Reader(GPT), [*(chunk(content=p) for p in parts), last("stop")])
    thought = "".join(p.text for p in pieces if isinstance(p, ReasoningDelta))
    shown = "".join(p.text for p in pieces if isinstance(p, TextDelta))
    assert (thought, shown, answer.message.text) == (THOUGHT, SPOKEN, SPOKEN)
    assert isinstance(answer.message.blocks[0], ReasoningBlock)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thinking_in_its_own_field_is_a_neutral_block(name):
    """S17."""
    _, answer = read(chat.Reader(GPT), [chunk(**{name: "Je pèse."}), last("stop", content="Oui.")])
    thought, said_ = answer.message.blocks
    assert (thought.text, thought.provider, said_.text) == ("Je pèse.", GPT.origin, "Oui.")


def test_text_that_speaks_of_thinking_later_stays_text():
    written = "La balise <think> ouvre, </think> ferme."
    assert read(chat.Reader(GPT), [last("stop", content=written)])[1].message.text == written


def test_a_refusal_of_chat_is_one_whatever_its_finish_reason():
    assert read(chat.Reader(GPT), [chunk(refusal="Désolé"), last("stop")])[1].stop == "refusal"


# Responses


def said(text_):
    return {"type": "message", "content": [{"type": "output_text", "text": text_}]}


def responded(*output, status="completed", **more):
    body = {"status": status, "model": "gpt-x", "output": list(output), **more}
    return read(responses.Reader(GPT), [{"type": "response.completed", "response": body}])[1]


def test_reasoning_of_responses_is_kept_in_its_encrypted_form_alone():
    """S16."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "zzz"}
    call = {"type": "function_call", "call_id": "c", "name": "lire", "arguments": "{}"}
    answer = responded(thought, call)
    kept, asked = answer.message.blocks
    assert json.loads(kept.opaque) == {
        "type": "reasoning",
        "summary": [],
        "encrypted_content": "zzz",
    }
    assert isinstance(asked, ToolCallBlock)
    plain = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Je pèse."}]}
    assert responded(plain, said("Oui.")).message.blocks[0].opaque == ""


@pytest.mark.parametrize(
    ("more", "stop"),
    [
        ({}, "end"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "filtered"),
        ({"status": "incomplete", "incomplete_details": {"reason": "nouveau"}}, "other"),
    ],
)
def test_each_status_of_responses_has_its_meaning(more, stop):
    assert responded(said("Oui."), **more).stop == stop


@pytest.mark.parametrize("status", ["failed", "cancelled", "queued", None])
def test_a_response_that_is_not_over_is_none(status):
    with pytest.raises(ModelError):
        responded(said("Oui."), status=status)


# Events


TEXT = "Référence D-2026-042 : 1 250,00 € 👨‍👩‍👧"
BODY = json.dumps({"texte": TEXT}, ensure_ascii=False)
SHAPES = {
    "plain": f"data: {BODY}\n\ndata: fin\n\n",
    "crlf": f"event: x\r\ndata: {BODY}\r\n\r\ndata: fin\r\n\r\n",
    "cr": f"data: {BODY}\r\rdata: fin\r\r",
    "bom": f"\ufeffdata: {BODY}\n\ndata: fin\n\n",
    "comments": f": ping\n\nid: 1\nretry: 3\ndata:{BODY}\n\n:\n\ndata: fin",
    "lines": f'data: {{"texte":\ndata: {BODY[9:]}\n\ndata: fin\n\n',
}


@pytest.mark.parametrize("shape", SHAPES)
def test_events_are_the_same_wherever_their_bytes_are_cut(shape):
    """S04."""
    raw = SHAPES[shape].encode()
    for cut in range(len(raw) + 1):
        decoder = Decoder()
        found = [*decoder.feed(raw[:cut]), *decoder.feed(raw[cut:]), *decoder.feed(b"", last=True)]
        assert (json.loads(found[0])["texte"], found[1:]) == (TEXT, ["fin"])


@given(st.sampled_from(sorted(SHAPES)), st.data())
def test_events_are_the_same_in_any_pieces(shape, data):
    """S04."""
    raw, decoder, found = SHAPES[shape].encode(), Decoder(), []
    while raw:
        size = data.draw(st.integers(1, len(raw)))
        found += decoder.feed(raw[:size])
        raw = raw[size:]
    found += decoder.feed(b"", last=True)
    assert (json.loads(found[0])["texte"], found[1:]) == (TEXT, ["fin"])


def test_a_stream_that_ends_in_half_a_character_is_an_error():
    """S04."""
    decoder = Decoder()
    list(decoder.feed("data: é".encode()[:-1]))
    with pytest.raises(UnicodeDecodeError):
        list(decoder.feed(b"", last=True))
