"""Responses API: neutral requests to its JSON, its events to neutral answers.

Source: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from loom_ia.adapters.models.exchange import stream_error
from loom_ia.adapters.models.files import PDF, Attachments
from loom_ia.adapters.models.openai.parts import Json, inner, meant, system_of, usage_of
from loom_ia.core.model import (
    Answer,
    AnyBlock,
    CallDelta,
    FileBlock,
    ImageBlock,
    Message,
    ModelChunk,
    ModelRequest,
    ModelSpec,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolResultBlock,
)
from loom_ia.core.model.arguments import call_of, is_array, is_object
from loom_ia.core.model.dialects import native
from loom_ia.core.model.stops import StopReason, stop_of
from loom_ia.core.projections.conversation import Backend, callable_tools, conversation

REASONERS = re.compile(r"(?:o\d|gpt-5)")
ENCRYPTED = "reasoning.encrypted_content"
COUNTS = ("input", "output")


def encode(request: ModelRequest, files: Attachments) -> Json:
    """JSON of a request; `params` of the model go as they are. Nothing is kept by the provider."""
    spec = request.spec
    body: Json = {"model": spec.model, "store": False}
    if spec.max_tokens is not None:
        body["max_output_tokens"] = spec.max_tokens
    if spec.capabilities.thinking or REASONERS.match(spec.model):
        body["include"] = [ENCRYPTED]
    body |= spec.params
    if system := system_of(request):
        body["instructions"] = system
    if tools := callable_tools(request):
        body["tools"] = [
            {
                "type": "function",
                "name": t.name,
                "description": t.description,
                "parameters": t.input_schema,
                "strict": False,
            }
            for t in tools
        ]
        if not request.tools:
            body["tool_choice"] = "none"
    if (schema := native(spec, request.schema)) is not None:
        wanted: Json = {"type": "json_schema", "name": "answer", "strict": True, "schema": schema}
        body["text"] = {**inner(body, "text"), "format": wanted}
    body["input"] = list(_items(request, files))
    body["stream"] = True
    return body


def _items(request: ModelRequest, files: Attachments) -> Iterator[Json]:
    backend = Backend(request.spec.origin, request.language)
    for message in conversation(request.messages, backend):
        match message.role:
            case "assistant":
                yield from _assistant(message)
            case "user":
                yield {"role": "user", "content": _content(message.blocks, files)}
            case "tool":
                for block in message.blocks:
                    if isinstance(block, ToolResultBlock):
                        yield _result(block, files)


def _assistant(message: Message) -> Iterator[Json]:
    """Items of an answer; reasoning stands before what it led to, or not at all."""
    thoughts: list[Json] = []
    for block in message.blocks:
        match block:
            case ReasoningBlock():
                kept: object = json.loads(block.opaque) if block.opaque else None
                if is_object(kept):
                    thoughts.append(kept)
            case TextBlock():
                yield from thoughts
                thoughts.clear()
                yield {
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": block.text}],
                }
            case ToolCallBlock():
                yield from thoughts
                thoughts.clear()
                yield {
                    "type": "function_call",
                    "call_id": block.id,
                    "name": block.name,
                    "arguments": json.dumps(block.arguments, ensure_ascii=False),
                }
            case _:
                pass


def _result(block: ToolResultBlock, files: Attachments) -> Json:
    attached = any(
        not isinstance(part, TextBlock) and files.attached(part) is not None
        for part in block.content
    )
    output = _content(block.content, files) if attached else files.text(block.content)
    return {"type": "function_call_output", "call_id": block.call_id, "output": output}


def _content(blocks: Sequence[AnyBlock], files: Attachments) -> list[Json]:
    parts: list[Json] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append({"type": "input_text", "text": block.text})
        elif isinstance(block, ImageBlock | FileBlock):
            parts.append(_file(block, files))
    return parts


def _file(block: ImageBlock | FileBlock, files: Attachments) -> Json:
    found = files.attached(block)
    if found is None:
        return {"type": "input_text", "text": files.mention(block)}
    if found.media_type == PDF:
        name = found.name or "document.pdf"
        return {"type": "input_file", "filename": name, "file_data": found.url}
    return {"type": "input_image", "image_url": found.url}


class Reader:
    """Puts the events of one stream together."""

    def __init__(self, spec: ModelSpec, schema: Mapping[str, object] | None = None) -> None:
        """Read an answer; `schema` is the one that its model was held to."""
        self._spec, self._schema = spec, schema
        self._items: dict[object, Json] = {}
        self._ignored = 0
        self._answer: Answer | None = None

    def done(self) -> None:
        """Not a word of this API: its streams end by an event."""

    def feed(self, event: Mapping[str, object]) -> Iterable[ModelChunk]:
        """Pieces that an event brings; an event that nobody knows brings none.

        Raises:
            ModelError: the event is an error.

        """
        match event.get("type"):
            case "response.output_text.delta":
                yield TextDelta(text=str(event.get("delta", "")))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield ReasoningDelta(text=str(event.get("delta", "")))
            case "response.function_call_arguments.delta":
                yield CallDelta(arguments=str(event.get("delta", "")))
            case "response.output_item.added":
                yield CallDelta(name=str(inner(event, "item").get("name") or ""))
            case "response.output_item.done":
                self._items[event.get("output_index")] = inner(event, "item")
            case "response.completed" | "response.incomplete" | "response.failed":
                self._answer = self.whole(inner(event, "response"))
            case "error":
                raise stream_error(self._spec.id, event)
            case str() as kind if kind.startswith("response."):
                pass  # known, and said again by an event that ends it
            case _:
                self._ignored += 1

    def answer(self) -> Answer | None:
        """The whole answer; None before the event that holds it."""
        return self._answer

    def whole(self, body: Mapping[str, object]) -> Answer:
        """The answer of a response object.

        Raises:
            ModelError: the response failed.

        """
        if body.get("status") not in {"completed", "incomplete"}:
            raise stream_error(self._spec.id, body)
        output = body.get("output")
        items = [one for one in output if is_object(one)] if is_array(output) else []
        blocks: list[AnyBlock] = []
        refused = False
        for item in items or self._items.values():
            blocks += self._blocks(item)
            refused = refused or "refusal" in _parts(item, "type")
        message = Message(role="assistant", blocks=tuple(blocks))
        word = str(inner(body, "incomplete_details").get("reason") or body.get("status"))
        return Answer(
            message=message,
            stop=_reason(word, message, refused=refused),
            usage=usage_of(inner(body, "usage"), COUNTS),
            model=str(body.get("model") or ""),
            detail="refusal" if refused else word,
            ignored=self._ignored,
        )

    def _blocks(self, item: Json) -> Iterator[AnyBlock]:
        match item.get("type"):
            case "message":
                text = "".join(_parts(item, "text"))
                if text:
                    yield TextBlock.of(meant(text, self._schema))
            case "function_call":
                identifier = str(item.get("call_id") or item.get("id") or "")
                yield call_of(identifier, str(item.get("name", "")), str(item.get("arguments", "")))
            case "reasoning":
                yield self._thought(item)
            case _:
                pass

    def _thought(self, item: Json) -> ReasoningBlock:
        text = "\n\n".join((*_parts(item, "text", "summary"), *_parts(item, "text")))
        # Nothing is kept by the provider: without its encrypted form, it cannot be given back.
        sent = {key: item[key] for key in ("type", "summary", "encrypted_content") if key in item}
        opaque = json.dumps(sent, ensure_ascii=False) if item.get("encrypted_content") else ""
        return ReasoningBlock(text=text, provider=self._spec.origin, opaque=opaque)


def _parts(item: Json, key: str, where: str = "content") -> list[str]:
    parts = item.get(where)
    found = [part.get(key) for part in parts if is_object(part)] if is_array(parts) else []
    return [one for one in found if isinstance(one, str)]


def _reason(word: str, message: Message, *, refused: bool) -> StopReason:
    if refused:
        return stop_of("responses", "refusal")
    if word == "completed" and message.calls:
        return stop_of("responses", "function_call")
    return stop_of("responses", word)
