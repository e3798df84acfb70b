"""Recorded exchanges of real providers, and a server that writes bytes as a script says."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from loom_ia.adapters.env import Env
from loom_ia.core.model import ModelRequest, ModelSpec, user
from loom_ia.runtime.catalog import model_settings

RECORDED = Path(__file__).parents[2] / "exchanges"


@dataclass
class Reply:
    """One answer of the server; `cut` bytes of its body leave before the connection drops, or, if
    it is `clean`, before the answer ends as if it were whole.

    `sizes` of the pieces that leave one after the other; `ticking` bytes then leave without end,
    and `gate` is what it waits for before its first byte.
    """

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    clean: bool = False
    size: int = 1 << 20
    ticking: bytes = b""
    gate: asyncio.Event | None = None

    async def write(self, writer):
        said = {"content-type": "text/event-stream", **self.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in said.items())
        start = f"HTTP/1.1 {self.status} x\r\n{head}transfer-encoding: chunked\r\n\r\n".encode()
        if self.gate is not None:
            await self.gate.wait()
        body = self.body if self.cut is None else self.body[: self.cut]
        pieces = [body[n : n + self.size] for n in range(0, len(body), self.size)]
        writer.write(start + b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in pieces))
        while self.ticking:
            writer.write(b"%x\r\n%b\r\n" % (len(self.ticking), self.ticking))
            await writer.drain()
            await asyncio.sleep(0.01)
        if self.cut is None or self.clean:
            writer.write(b"0\r\n\r\n")
        await writer.drain()


class ByteServer:
    """Answers what it was given, in order, and remembers what it was asked."""

    def __init__(self):
        self.replies, self.requests = [], []
        self.asked = asyncio.Event()

    @property
    def bodies(self):
        return [body for _, _, body in self.requests]

    async def serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                self.requests.append((lines[0].split()[1], headers, json.loads(body)))
                self.asked.set()
                reply = self.replies.pop(0)
                await reply.write(writer)
                if reply.cut is not None and not reply.clean:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving():
    server = ByteServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()


@pytest.fixture
async def server():
    async with serving() as one:
        yield one


@dataclass(frozen=True)
class Recorded:
    """One exchange: the API it belongs to, and what the provider answered."""

    name: str
    api: str
    status: int
    body: bytes
    streamed: bool

    def reply(self, **changes):
        kind = "text/event-stream" if self.streamed else "application/json"
        return Reply(self.body, self.status, {"content-type": kind}, **changes)


def _lines(*events, done=False):
    body = b"".join(
        b"data: " + json.dumps(e, ensure_ascii=False).encode() + b"\n\n" for e in events
    )
    return body + (b"data: [DONE]\n\n" if done else b"")


def says(api, text="", *calls, stop=None, model="m", usage=(10, 5), thought="", **more):
    """An answer of a server: a text, then calls given as (name, written arguments)."""
    make = {"anthropic": _say_messages, "chat": _say_chat, "responses": _say_responses}[api]
    return Reply(make(text, calls, stop, model, usage, thought), **more)


def _say_messages(text, calls, stop, model, usage, thought):
    incoming, outgoing = usage or (None, None)
    start = {"model": model, "usage": {"input_tokens": incoming}}
    events, parts = [{"type": "message_start", "message": start}], []
    if thought:
        signed = [{"type": "thinking_delta", "thinking": thought}]
        signed.append({"type": "signature_delta", "signature": f"signed-{model}"})
        parts.append(({"type": "thinking", "thinking": ""}, signed))
    if text:
        parts.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": text}]))
    for n, (name, written) in enumerate(calls):
        block = {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": {}}
        parts.append((block, [{"type": "input_json_delta", "partial_json": written}]))
    for n, (block, deltas) in enumerate(parts):
        events.append({"type": "content_block_start", "index": n, "content_block": block})
        events += [{"type": "content_block_delta", "index": n, "delta": d} for d in deltas]
        events.append({"type": "content_block_stop", "index": n})
    delta = {"stop_reason": stop or ("tool_use" if calls else "end_turn")}
    delta = stop if isinstance(stop, dict) else delta
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": outgoing}})
    return _lines(*events, {"type": "message_stop"})


def _say_chat(text, calls, stop, model, usage, thought):
    def chunk(finish=None, **delta):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"object": "chat.completion.chunk", "model": model, "choices": [choice]}

    events = [chunk(reasoning_content=thought)] if thought else []
    events += [chunk(content=text)] if text else []
    for n, (name, written) in enumerate(calls):
        function = {"name": name, "arguments": written}
        events.append(chunk(tool_calls=[{"index": n, "id": f"call_{n}", "function": function}]))
    events.append(chunk(stop or ("tool_calls" if calls else "stop")))
    if usage:
        counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
        events.append({"model": model, "choices": [], "usage": counts})
    return _lines(*events, done=True)


def _say_responses(text, calls, stop, model, usage, thought):
    output = []
    if thought:
        output.append({"type": "reasoning", "summary": [], "encrypted_content": thought})
    if text:
        content = [{"type": "output_text", "text": text}]
        output.append({"type": "message", "role": "assistant", "content": content})
    output += [
        {"type": "function_call", "call_id": f"call_{n}", "name": name, "arguments": written}
        for n, (name, written) in enumerate(calls)
    ]
    body = {"status": "completed", "model": model, "output": output}
    if stop:
        body |= {"status": "incomplete", "incomplete_details": {"reason": stop}}
    if usage:
        body["usage"] = {"input_tokens": usage[0], "output_tokens": usage[1]}
    shown = [{"type": "response.output_text.delta", "delta": text}] if text else []
    return _lines(*shown, {"type": "response.completed", "response": body})


def refuses(status, message="non", kind="api_error", **headers):
    """An error as both vendors write them."""
    body = {"type": "error", "error": {"type": kind, "code": kind, "message": message}}
    return Reply(json.dumps(body).encode(), status, {"content-type": "application/json", **headers})


def spec_of(api, url="http://x", **more):
    sdk = "anthropic" if api == "anthropic" else "openai"
    named = None if api == "anthropic" else api
    return ModelSpec(id="M", sdk=sdk, api=named, model="m", base_url=url, **more)


@asynccontextmanager
async def asking(api, url, **more):
    """Ask one model, any number of times: every piece of what it answers."""
    spec = spec_of(api, url, **more)
    settings = model_settings(spec.sdk).model_validate({})
    request = ModelRequest(spec, "Tu aides.", [user("Bonjour")], (), turn=0)
    async with settings.open(Env(Path.cwd(), {"KEY": "secret-0"}), spec) as model:

        async def ask():
            return [chunk async for chunk in model.stream(request)]

        yield ask


async def asked(api, url, **more):
    """Every piece of what a model answers to one request."""
    async with asking(api, url, **more) as ask:
        return await ask()


def _api(text):
    if '"chat.completion' in text:
        return "chat"
    if '"response"' in text or "response.created" in text:
        return "responses"
    return "anthropic"


def _cassette(path):
    for n, one in enumerate(yaml.safe_load(path.read_text())["interactions"]):
        uri, response = one["request"]["uri"], one["response"]
        ends = {"/messages": "anthropic", "/chat/completions": "chat", "/responses": "responses"}
        api = next((api for end, api in ends.items() if uri.split("?")[0].endswith(end)), None)
        if api is None:
            continue
        body = response.get("parsed_body")
        if body is None:
            text = response["body"]["string"]
            raw = text if isinstance(text, bytes) else text.encode()
        else:
            raw = json.dumps(body, ensure_ascii=False).encode()
        streamed = raw.lstrip().startswith((b"event:", b"data:", b":"))
        name = f"{path.stem}#{n}"
        yield Recorded(name, api, response["status"]["code"], raw, streamed)


def _raw(path):
    raw = path.read_bytes()
    if path.name.endswith(".chunks.txt"):
        lines = [b"data: " + line for line in raw.split(b"\n") if line.strip()]
        if b"chat.completion" in raw:
            lines.append(b"data: [DONE]")
        for n, part in enumerate(_parted(lines)):
            body = b"\n\n".join(part) + b"\n\n"
            yield Recorded(f"{path.stem}#{n}", _api(body.decode()), 200, body, streamed=True)
        return
    if path.suffix == ".json":
        yield Recorded(path.stem, "responses", 429, raw, streamed=False)
        return
    yield Recorded(path.stem, _api(raw.decode()), 200, raw, streamed=True)


def _parted(lines):
    """Answers of a file that holds several, one after the other."""
    starts = [n for n, line in enumerate(lines) if b'"response.created"' in line] or [0]
    return [lines[a:b] for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)]


def recorded():
    found = []
    for path in sorted(RECORDED.rglob("*")):
        if path.suffix == ".yaml":
            found += _cassette(path)
        elif path.is_file() and path.suffix != ".md":
            found += _raw(path)
    return found
