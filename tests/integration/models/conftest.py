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
    """One answer of the server; `cut` bytes of its body leave before the connection drops."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None

    def bytes(self):
        said = {"content-type": "text/event-stream", **self.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in said.items())
        start = f"HTTP/1.1 {self.status} x\r\n{head}transfer-encoding: chunked\r\n\r\n".encode()
        body = self.body if self.cut is None else self.body[: self.cut]
        chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        return start + chunk + (b"0\r\n\r\n" if self.cut is None else b"")


class ByteServer:
    """Answers what it was given, in order, and remembers what it was asked."""

    def __init__(self):
        self.replies, self.requests = [], []

    async def serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                self.requests.append((lines[0].split()[1], headers, json.loads(body)))
                reply = self.replies.pop(0)
                writer.write(reply.bytes())
                await writer.drain()
                if reply.cut is not None:
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


def spec_of(api, url="http://x", **more):
    sdk = "anthropic" if api == "anthropic" else "openai"
    named = None if api == "anthropic" else api
    return ModelSpec(id="M", sdk=sdk, api=named, model="m", base_url=url, **more)


async def asked(api, url, *messages, variables=None, **more):
    """Every piece of what a model answers to one request."""
    spec = spec_of(api, url, **more)
    settings = model_settings(spec.sdk).model_validate({})
    request = ModelRequest(spec, "Tu aides.", messages or [user("Bonjour")], (), turn=0)
    environment = Env(Path.cwd(), {"KEY": "secret-0"} if variables is None else variables)
    async with settings.open(environment, spec) as model:
        return [chunk async for chunk in model.stream(request)]


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
