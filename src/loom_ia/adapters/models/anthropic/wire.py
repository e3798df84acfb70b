"""Messages API: neutral requests to its JSON, its events to neutral answers.

Source: https://docs.anthropic.com/en/api/messages and /en/api/messages-streaming
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from loom_ia.adapters.models.exchange import stream_error, tokens
from loom_ia.adapters.models.files import PDF, Attachments
from loom_ia.core.failures import ModelTransientError
from loom_ia.core.model import (
    Announced,
    Answer,
    AnyBlock,
    CallDelta,
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    ModelChunk,
    ModelRequest,
    ModelSpec,
    ReasoningBlock,
    ReasoningDelta,
    Share,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolResultBlock,
    Usage,
)
from loom_ia.core.model.arguments import call_of, is_array, is_object
from loom_ia.core.model.dialects import native
from loom_ia.core.model.stops import stop_of
from loom_ia.core.projections.conversation import Backend, callable_tools, conversation

MAX_TOKENS = 8192
"""The API wants a limit; this one stands when the configuration has none."""
Json = dict[str, object]
POINT: Json = {"type": "ephemeral"}


def encode(request: ModelRequest, files: Attachments) -> Json:
    """JSON of a request; `params` of the model go as they are."""
    spec = request.spec
    body: Json = {"model": spec.model, "max_tokens": spec.max_tokens or MAX_TOKENS, **spec.params}
    if system := _system(request):
        body["system"] = system
    if tools := _tools(request):
        body["tools"] = tools
        if not request.tools:
            body["tool_choice"] = {"type": "none"}
    if (schema := native(spec, request.schema)) is not None:
        given = body.get("output_config")
        wanted = {"type": "json_schema", "schema": schema}
        body["output_config"] = {**(given if is_object(given) else {}), "format": wanted}
    body["messages"] = _messages(request, files)
    body["stream"] = True
    return body


def _system(request: ModelRequest) -> list[Json]:
    blocks: list[Json] = []
    if request.system.strip():
        block: Json = {"type": "text", "text": request.system}
        if request.spec.cache.system:
            block["cache_control"] = POINT
        blocks.append(block)
    if request.note:  # behind the cache point, which stays where it was
        blocks.append({"type": "text", "text": request.note})
    return blocks


def _tools(request: ModelRequest) -> list[Json]:
    tools: list[Json] = [
        {"name": t.name, "description": t.description, "input_schema": t.input_schema}
        for t in callable_tools(request)
    ]
    if tools and request.spec.cache.tools:
        tools[-1]["cache_control"] = POINT
    return tools


def _messages(request: ModelRequest, files: Attachments) -> list[Json]:
    backend = Backend(request.spec.origin, request.language, last_assistant=True)
    found = conversation(request.messages, backend)
    messages: list[Json] = []
    for message in found:
        role = "assistant" if message.role == "assistant" else "user"
        content = [_block(block, files) for block in message.blocks]
        last = messages[-1] if messages else None
        before = last["content"] if last is not None and last["role"] == role else None
        if is_array(before):
            before.extend(content)
        else:
            messages.append({"role": role, "content": content})
    if request.spec.cache.messages:
        _point(messages[-1])
    return messages


def _point(message: Json) -> None:
    content = message["content"]
    if is_array(content):
        for block in reversed(content):
            if is_object(block) and "thinking" not in str(block.get("type")):
                block["cache_control"] = POINT
                return


def _block(block: AnyBlock, files: Attachments) -> Json:
    match block:
        case TextBlock() | ImageBlock() | FileBlock():
            return _content(block, files)
        case ToolCallBlock():
            return {
                "type": "tool_use",
                "id": block.id,
                "name": block.name,
                "input": block.arguments,
            }
        case ToolResultBlock():
            return _result(block, files)
        case ReasoningBlock():
            return _reasoning(block)


def _content(block: ContentBlock, files: Attachments) -> Json:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    found = files.attached(block)
    if found is None:
        return {"type": "text", "text": files.mention(block)}
    source: Json = {"type": "base64", "media_type": found.media_type, "data": found.data}
    return {"type": "document" if found.media_type == PDF else "image", "source": source}


def _result(block: ToolResultBlock, files: Attachments) -> Json:
    content = [_content(part, files) for part in block.content]
    result: Json = {"type": "tool_result", "tool_use_id": block.call_id, "content": content}
    if block.is_error:
        result["is_error"] = True
    return result


def _reasoning(block: ReasoningBlock) -> Json:
    if block.opaque.startswith("{"):
        kept: object = json.loads(block.opaque)
        if is_object(kept):
            return kept
    return {"type": "thinking", "thinking": block.text, "signature": block.opaque}


@dataclass(slots=True)
class _Open:
    """A block of the answer while it comes."""

    start: Json
    text: list[str] = field(default_factory=list[str])
    signature: str = ""
    written: list[str] = field(default_factory=list[str])
    """Input of a call or of a server's own tool."""


class Reader:
    """Puts the events of one stream together."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self._model = ""
        self._blocks: dict[object, _Open] = {}
        self._usage: Json = {}
        self._stop = ""
        self._detail = ""
        self._ended = False
        self._ignored = 0

    def done(self) -> None:
        """Not a word of this API: its streams end by an event."""

    def feed(self, event: Mapping[str, object]) -> Iterable[ModelChunk]:
        """Pieces that an event brings; an event that nobody knows brings none.

        Raises:
            ModelError: the event is an error.

        """
        match event.get("type"):
            case "message_start":
                yield from self._started(_object(event, "message"))
            case "content_block_start":
                block = _object(event, "content_block")
                self._blocks[event.get("index")] = _Open(block)
                if block.get("type") == "tool_use":
                    yield CallDelta(name=str(block.get("name", "")))
            case "content_block_delta":
                yield from self._delta(event.get("index"), _object(event, "delta"))
            case "message_delta":
                delta = _object(event, "delta")
                self._stopped(delta)
                self._usage |= _known(_object(event, "usage"))
            case "message_stop":
                self._ended = True
            case "error":
                raise stream_error(self._spec.id, event)
            case "ping" | "content_block_stop":
                pass
            case _:
                self._ignored += 1

    def _started(self, message: Json) -> Iterator[ModelChunk]:
        self._model = str(message.get("model") or self._model)
        self._usage |= _known(_object(message, "usage"))
        usage = usage_of(self._usage, whole=False)
        if usage is not None:
            yield Announced(usage=usage)

    def _delta(self, index: object, delta: Json) -> Iterator[ModelChunk]:
        block = self._blocks.get(index)
        if block is None:
            return
        match delta.get("type"):
            case "text_delta":
                text = str(delta.get("text", ""))
                block.text.append(text)
                yield TextDelta(text=text)
            case "thinking_delta":
                text = str(delta.get("thinking", ""))
                block.text.append(text)
                yield ReasoningDelta(text=text)
            case "signature_delta":
                block.signature += str(delta.get("signature", ""))
            case "input_json_delta":
                written = str(delta.get("partial_json", ""))
                block.written.append(written)
                yield CallDelta(arguments=written)
            case "citations_delta":
                pass
            case _:
                self._ignored += 1

    def _stopped(self, delta: Json) -> None:
        self._stop = str(delta.get("stop_reason") or self._stop)
        details = _object(delta, "stop_details")
        said = details.get("category") or details.get("explanation")
        self._detail = str(said) if said else self._detail

    def answer(self) -> Answer | None:
        """The whole answer; None before `message_stop`."""
        return self._made() if self._ended else None

    def whole(self, body: Mapping[str, object]) -> Answer:
        """The answer of a server that does not stream.

        Raises:
            ModelError: there is none in it.

        """
        content = body.get("content")
        if body.get("type") == "error" or not is_array(content):
            raise stream_error(self._spec.id, body)
        self._model, self._usage = str(body.get("model", "")), _known(_object(body, "usage"))
        self._stopped(dict(body))
        self._blocks = {n: _Open(b) for n, b in enumerate(content) if is_object(b)}
        return self._made()

    def _made(self) -> Answer:
        if not self._stop:
            reason = "the answer ended without a stop reason"
            raise ModelTransientError(model=self._spec.id, reason=reason)
        blocks = [made for open_block in self._blocks.values() if (made := self._block(open_block))]
        shares = shares_of(self._usage)
        usage = sum((share.usage for share in shares), Usage()) if shares else None
        return Answer(
            message=Message(role="assistant", blocks=tuple(blocks)),
            stop=stop_of("anthropic", self._stop),
            usage=usage or usage_of(self._usage),
            model=self._model,
            detail=self._detail or self._stop,
            shares=shares,
            ignored=self._ignored,
        )

    def _block(self, block: _Open) -> AnyBlock | None:
        start, origin = block.start, self._spec.origin
        match start.get("type"):
            case "text":
                text = str(start.get("text") or "") + "".join(block.text)
                return TextBlock.of(text) if text else None
            case "thinking":
                text = str(start.get("thinking") or "") + "".join(block.text)
                signature = block.signature or str(start.get("signature") or "")
                return ReasoningBlock(text=text, provider=origin, opaque=signature)
            case "tool_use":
                identifier, name = str(start.get("id", "")), str(start.get("name", ""))
                return call_of(identifier, name, _written(block))
            case _:  # redacted reasoning, and what the provider's own tools did
                raw = dict(start)
                if block.written:
                    raw["input"] = _input(_written(block))
                opaque = json.dumps(raw, ensure_ascii=False)
                return ReasoningBlock(provider=origin, opaque=opaque)


def _written(block: _Open) -> str:
    """Input as it was written; some servers give it whole at the start of the block."""
    written = "".join(block.written)
    given = block.start.get("input")
    return written or (json.dumps(given, ensure_ascii=False) if given else "")


def _input(written: str) -> object:
    try:
        return json.loads(written) if written.strip() else {}
    except ValueError:
        return {}


def _object(event: Mapping[str, object], name: str) -> Json:
    value = event.get(name)
    return value if is_object(value) else {}


def _known(usage: Json) -> Json:
    return {key: value for key, value in usage.items() if value is not None}


_COUNTS = (
    ("input", "input_tokens"),
    ("output", "output_tokens"),
    ("cache_read", "cache_read_input_tokens"),
    ("cache_write", "cache_creation_input_tokens"),
)


def usage_of(usage: Json, *, whole: bool = True) -> Usage | None:
    """Tokens as the API counts them, cache apart; None when they are missing or impossible."""
    counts = {name: tokens(usage, key) for name, key in _COUNTS}
    details = _object(usage, "output_tokens_details")
    reasoning = tokens(details, "thinking_tokens") or 0
    if counts["input"] is None or -1 in counts.values():
        return None
    read = Usage(
        input=counts["input"],
        output=counts["output"] or 0,
        cache_read=counts["cache_read"] or 0,
        cache_write=counts["cache_write"] or 0,
        reasoning=max(reasoning, 0),
    )
    if whole and (counts["output"] is None or read == Usage()):
        return None
    return read


def shares_of(usage: Json) -> tuple[Share, ...]:
    """What each model consumed, when the provider asked several; empty when it asked one.

    One that declined before its first word is not billed.
    """
    listed = usage.get("iterations")
    each = [one for one in listed if is_object(one)] if is_array(listed) else []
    if not any(one.get("model") or one.get("type") == "compaction" for one in each):
        return ()
    shares: list[Share] = []
    for one in each:
        billed = tokens(one, "output_tokens") != 0
        found = usage_of(one, whole=False) if billed else Usage()
        if found is None:
            return ()
        shares.append(Share(model=str(one.get("model") or ""), usage=found))
    return tuple(shares)
