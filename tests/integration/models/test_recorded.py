"""Real traffic of providers, replayed over HTTP: the answers are those that were recorded."""

import importlib.util
import json
from pathlib import Path

import pytest

from loom_ia.adapters.models.anthropic import wire
from loom_ia.adapters.models.openai import chat, responses
from loom_ia.adapters.models.sse import Decoder
from loom_ia.core.failures import ModelError, ModelQuotaError, ModelRequestError
from loom_ia.core.model import Answer
from loom_ia.core.model.stops import stop_of

_spec = importlib.util.spec_from_file_location(
    "models_conftest", Path(__file__).parent / "conftest.py"
)
_support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_support)
ALL = _support.recorded()
asked, asking, spec_of = _support.asked, _support.asking, _support.spec_of
ANSWERED = [one for one in ALL if one.status == 200]
STREAMED = [one for one in ANSWERED if one.streamed]
FAILED = "test_tool_use_failed_error_streaming#0"
READERS = {"anthropic": wire.Reader, "chat": chat.Reader, "responses": responses.Reader}


def events(one):
    if not one.streamed:
        return [json.loads(one.body)]
    data = [line[5:].strip() for line in one.body.decode().splitlines() if line[:5] == "data:"]
    return [json.loads(text) for text in data if text and text != "[DONE]"]


def told(one):
    """Text, calls, word for the stop and tokens, read off a recording without the adapter."""
    return {"anthropic": _messages, "chat": _chat, "responses": _responses}[one.api](one)


def _messages(one):
    said = events(one)
    blocks, stop, usage = {}, "", {}
    for event in said:
        kind = event.get("type")
        if kind == "message":
            blocks = {n: [b, b.get("text", ""), ""] for n, b in enumerate(event["content"])}
            for block in blocks.values():
                block[2] = json.dumps(block[0].get("input", {}))
            stop, usage = event["stop_reason"], event["usage"]
        elif kind == "message_start":
            usage = {**usage, **event["message"]["usage"]}
        elif kind == "content_block_start":
            blocks[event["index"]] = [event["content_block"], "", ""]
        elif kind == "content_block_delta":
            delta = event["delta"]
            blocks[event["index"]][1] += delta.get("text", "")
            blocks[event["index"]][2] += delta.get("partial_json", "")
        elif kind == "message_delta":
            stop, usage = event["delta"]["stop_reason"], {**usage, **event["usage"]}
    text = "".join(b[1] for b in blocks.values() if b[0]["type"] == "text")
    calls = [(b[0]["name"], b[2] or "{}") for b in blocks.values() if b[0]["type"] == "tool_use"]
    counts = (usage["input_tokens"], usage["output_tokens"])
    return text, calls, stop_of("anthropic", stop), counts


def _chat(one):
    text, calls, stop, usage, refused = "", {}, "", None, False
    for event in events(one):
        usage = event.get("usage") or (event.get("x_groq") or {}).get("usage") or usage
        for choice in event["choices"]:
            part = choice.get("delta") or choice.get("message") or {}
            if choice["index"]:
                continue
            text += part.get("content") or ""
            refused = refused or bool(part.get("refusal"))
            stop = choice.get("finish_reason") or stop
            for n, piece in enumerate(part.get("tool_calls") or ()):
                call = calls.setdefault(piece.get("index", n), ["", ""])
                call[0] += piece["function"].get("name") or ""
                call[1] += piece["function"].get("arguments") or ""
    counts = None
    if usage:
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        counts = (usage["prompt_tokens"] - cached, usage["completion_tokens"])
    reason = "refusal" if refused else stop_of("chat", stop)
    return text, [tuple(call) for call in calls.values()], reason, counts


def _responses(one):
    whole = events(one)[-1]
    body = whole.get("response", whole)
    items = body["output"]
    parts = [p for item in items if item["type"] == "message" for p in item["content"]]
    calls = [(i["name"], i["arguments"]) for i in items if i["type"] == "function_call"]
    cached = body["usage"]["input_tokens_details"]["cached_tokens"]
    counts = (body["usage"]["input_tokens"] - cached, body["usage"]["output_tokens"])
    return "".join(p["text"] for p in parts), calls, "calls" if calls else "end", counts


def same(answer, one):
    text, calls, stop, counts = told(one)
    assert answer.message.text == text
    found = [
        (c.name, c.malformed if c.malformed is not None else c.arguments)
        for c in answer.message.calls
    ]
    assert found == [(name, _loaded(written)) for name, written in calls]
    assert answer.stop == stop
    assert (answer.usage and (answer.usage.input, answer.usage.output)) == counts


def _loaded(written):
    try:
        return json.loads(written or "{}")
    except ValueError:
        return written


@pytest.mark.parametrize("one", ANSWERED, ids=lambda one: one.name)
async def test_each_recorded_answer_is_read_as_it_was_given(server, one):
    server.replies = [one.reply()]
    if one.name == FAILED:
        with pytest.raises(ModelError) as caught:
            await asked(one.api, server.url)
        assert caught.value.retried
        return
    chunks = await asked(one.api, server.url)
    assert isinstance(chunks[-1], Answer)
    same(chunks[-1], one)
    shown = "".join(chunk.text for chunk in chunks if chunk.type == "text")
    assert not one.streamed or shown == chunks[-1].message.text


@pytest.mark.parametrize("one", [one for one in ALL if one.status != 200], ids=lambda one: one.name)
async def test_each_recorded_refusal_is_classified_and_consumed_nothing(server, one):
    server.replies = [one.reply()]
    with pytest.raises(ModelError) as caught:
        await asked(one.api, server.url)
    kind = ModelQuotaError if one.status == 429 else ModelRequestError
    assert type(caught.value) is kind
    assert caught.value.usage.input == 0
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "one", [one for one in STREAMED if one.name != FAILED], ids=lambda one: one.name
)
def test_a_stream_cut_at_any_byte_has_no_answer(one):
    decoder, reader = Decoder(), READERS[one.api](spec_of(one.api))
    answers = []
    for index in range(len(one.body) + 1):
        last = index == len(one.body)
        for data in decoder.feed(one.body[index : index + 1], last=last):
            if data == "[DONE]":
                reader.done()
            else:
                list(reader.feed(json.loads(data)))
            answers.append(reader.answer())
    assert answers[-1] is not None
    assert not any(answers[:-1])
    same(answers[-1], one)


WHOLE = [one for one in STREAMED if one.name != FAILED]
SMALL = [one for one in WHOLE if len(one.body) < 9000]
LARGE = [one for one in WHOLE if one not in SMALL]


async def in_pieces(server, one):
    """S04: every byte comes alone, so that the stream is cut everywhere at once."""
    server.replies = [one.reply(size=1)]
    same((await asked(one.api, server.url))[-1], one)


@pytest.mark.parametrize("one", SMALL, ids=lambda one: one.name)
async def test_a_stream_that_comes_byte_by_byte_is_read_as_it_was_given(server, one):
    await in_pieces(server, one)


@pytest.mark.slow
@pytest.mark.parametrize("one", LARGE, ids=lambda one: one.name)
async def test_a_long_stream_that_comes_byte_by_byte_is_read_as_it_was_given(server, one):
    await in_pieces(server, one)


async def lost(server, one, cuts):
    """Nothing is made of a stream whose connection drops, or that ends too early."""
    async with asking(one.api, server.url) as ask:
        for cut in cuts:
            for clean in (False, True):
                server.replies = [one.reply(cut=cut, clean=clean)]
                try:
                    chunks = await ask()
                except ModelError as error:
                    assert error.retried, (cut, clean)  # noqa: PT017 - some cuts raise nothing
                else:
                    assert not [c for c in chunks if isinstance(c, Answer)], (cut, clean)


def end_of(one):
    """Where a stream is whole, whatever follows."""
    return one.body.rindex(b"[DONE]") + 6 if one.api == "chat" else len(one.body.rstrip())


@pytest.mark.parametrize("one", WHOLE, ids=lambda one: one.name)
async def test_a_stream_cut_here_and_there_has_no_answer(server, one):
    end = end_of(one)
    step = max(end // 6, 1)
    await lost(server, one, sorted({*range(0, end, step), *range(end - 4, end)}))


@pytest.mark.slow
@pytest.mark.parametrize(
    "one", [one for one in WHOLE if len(one.body) < 1300], ids=lambda one: one.name
)
async def test_a_stream_cut_at_each_byte_has_no_answer_over_http(server, one):
    await lost(server, one, range(end_of(one)))


async def test_exchanges_are_kept_without_the_key_when_it_is_asked(server):
    one = next(one for one in STREAMED if one.api == "anthropic")
    server.replies = [one.reply()]
    chunks = await asked(
        "anthropic", server.url, api_key_env="KEY", capture={"raw_exchanges": True}
    )
    raw = next(chunk for chunk in chunks if chunk.type == "exchange")
    assert (raw.status, raw.request["model"], len(raw.body)) == (200, "m", len(events(one)))
    assert "secret-0" not in raw.model_dump_json()
    assert any("secret-0" in value for value in server.requests[0][1].values())


async def test_a_key_that_is_not_there_stops_before_the_request(server):
    with pytest.raises(ModelError, match="AUTRE is not set") as caught:
        await asked("chat", server.url, api_key_env="AUTRE")
    assert (caught.value.code, server.requests) == ("model_auth", [])
