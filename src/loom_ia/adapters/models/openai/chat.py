"""Chat Completions: neutral requests to its JSON, its chunks to neutral answers.

Source: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from loom_ia.adapters.models.exchange import stream_error
from loom_ia.adapters.models.files import PDF, Attachments
from loom_ia.adapters.models.openai.calls import Calls
from loom_ia.adapters.models.openai.parts import Json, inner, meant, system_of, usage_of
from loom_ia.adapters.models.openai.thinking import Splitter
from loom_ia.core.model import (
    Announced,
    Answer,
    AnyBlock,
    ContentBlock,
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
    ToolResultBlock,
)
from loom_ia.core.model.arguments import is_array, is_object
from loom_ia.core.model.dialects import native
from loom_ia.core.model.stops import StopReason, stop_of
from loom_ia.core.projections.conversation import Backend, callable_tools, conversation


def encode(request: ModelRequest, files: Attachments) -> Json:
    """JSON of a request; `params` of the model go as they are."""
    spec = request.spec
    body: Json = {"model": spec.model}
    if spec.max_tokens is not None:
        # The provider renamed the limit; the servers that copy it kept the first name.
        body["max_completion_tokens" if spec.base_url is None else "max_tokens"] = spec.max_tokens
    body |= spec.params
    if tools := callable_tools(request):
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": t.name,
                    "description": t.description,
                    "parameters": t.input_schema,
                },
            }
            for t in tools
        ]
        if not request.tools:
            body["tool_choice"] = "none"
    if (wanted := native(spec, request.schema)) is not None:
        schema: Json = {"name": "answer", "schema": wanted, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    body["messages"] = list(_messages(request, files))
    body["stream"] = True
    given = inner(body, "stream_options")
    body["stream_options"] = {**given, "include_usage": True}
    return body


def _messages(request: ModelRequest, files: Attachments) -> Iterator[Json]:
    if system := system_of(request):
        yield {"role": "system", "content": system}
    able = request.spec.capabilities
    origin = request.spec.origin if able.returns_reasoning else ""
    for message in conversation(request.messages, Backend(origin, request.language)):
        if message.role == "assistant":
            yield _assistant(message)
        elif message.role == "user":
            yield {"role": "user", "content": _content(message.blocks, files)}
        else:
            yield from _results(message, files)


def _assistant(message: Message) -> Json:
    text = message.text
    made: Json = {"role": "assistant", "content": text or None}
    thought = "".join(b.text for b in message.blocks if isinstance(b, ReasoningBlock))
    if thought:
        made["reasoning_content"] = thought
    if message.calls:
        made["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": json.dumps(call.arguments, ensure_ascii=False),
                },
            }
            for call in message.calls
        ]
    return made


def _results(message: Message, files: Attachments) -> Iterator[Json]:
    """Results, then the images that only a user may show here."""
    shown: list[ContentBlock] = []
    for block in message.blocks:
        if isinstance(block, ToolResultBlock):
            seen = [
                part
                for part in block.content
                if not isinstance(part, TextBlock) and files.attached(part) is not None
            ]
            shown += seen
            text = files.text([part for part in block.content if part not in seen])
            yield {"role": "tool", "tool_call_id": block.call_id, "content": text}
    if shown:
        yield {"role": "user", "content": _content(shown, files)}


def _content(blocks: Iterable[AnyBlock], files: Attachments) -> str | list[Json]:
    parts: list[Json] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append({"type": "text", "text": block.text})
        elif isinstance(block, ImageBlock | FileBlock):
            parts.append(_file(block, files))
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(str(part["text"]) for part in parts)
    return parts


def _file(block: ImageBlock | FileBlock, files: Attachments) -> Json:
    found = files.attached(block)
    if found is None:
        return {"type": "text", "text": files.mention(block)}
    if found.media_type == PDF:
        inside: Json = {"filename": found.name or "document.pdf", "file_data": found.url}
        return {"type": "file", "file": inside}
    return {"type": "image_url", "image_url": {"url": found.url}}


class Reader:
    """Puts the chunks of one stream together."""

    def __init__(self, spec: ModelSpec, schema: Mapping[str, object] | None = None) -> None:
        """Read an answer; `schema` is the one that its model was held to."""
        self._spec, self._schema = spec, schema
        self._model = ""
        self._text: list[str] = []
        self._thought: list[str] = []
        self._splitter = Splitter()
        self._calls = Calls()
        self._usage: Json = {}
        self._stop = ""
        self._refused = False
        self._ended = False
        self._ignored = 0

    def feed(self, event: Mapping[str, object]) -> Iterable[ModelChunk]:
        """Pieces that a chunk brings.

        Raises:
            ModelError: the chunk is an error.

        """
        if event.get("error"):
            raise stream_error(self._spec.id, event)
        if "choices" not in event:
            self._ignored += 1
        self._model = str(event.get("model") or self._model)
        usage = inner(event, "usage") or inner(inner(event, "x_groq"), "usage")
        if usage:
            self._usage = usage
            known = usage_of(usage, ("prompt", "completion"))
            if known is not None:
                yield Announced(usage=known)
        choice = _first(event)
        self._stop = str(choice.get("finish_reason") or self._stop)
        yield from self._delta(inner(choice, "delta"))

    def _delta(self, delta: Json) -> Iterator[ModelChunk]:
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thought, str) and thought:
            self._thought.append(thought)
            yield ReasoningDelta(text=thought)
        content = delta.get("content")
        if isinstance(content, str) and content:
            for kind, part in self._splitter.feed(content):
                yield self._part(kind, part)
        if delta.get("refusal"):
            self._refused = True
        pieces = delta.get("tool_calls")
        for piece in pieces if is_array(pieces) else ():
            if is_object(piece):
                yield self._calls.feed(piece)

    def _part(self, kind: str, part: str) -> ModelChunk:
        if kind == "thought":
            self._thought.append(part)
            return ReasoningDelta(text=part)
        self._text.append(part)
        return TextDelta(text=part)

    def done(self) -> None:
        """`[DONE]` came."""
        self._ended = True

    def answer(self) -> Answer | None:
        """The whole answer; None before `[DONE]`."""
        return self._made() if self._ended else None

    def whole(self, body: Mapping[str, object]) -> Answer:
        """The answer of a server that does not stream.

        Raises:
            ModelError: there is none in it.

        """
        choice = _first(body)
        if not choice:
            raise stream_error(self._spec.id, body)
        self._model = str(body.get("model") or "")
        self._usage = inner(body, "usage")
        self._stop = str(choice.get("finish_reason") or "")
        for _ in self._delta(inner(choice, "message")):
            pass  # nobody follows an answer that comes at once
        return self._made()

    def _made(self) -> Answer:
        for kind, part in self._splitter.end():
            self._part(kind, part)
        blocks: list[AnyBlock] = []
        if self._thought:
            thought = "".join(self._thought)
            blocks.append(ReasoningBlock(text=thought, provider=self._spec.origin))
        calls = self._calls.blocks()
        if text := "".join(self._text):
            blocks.append(TextBlock.of(text if calls else meant(text, self._schema)))
        blocks += calls
        message = Message(role="assistant", blocks=tuple(blocks))
        return Answer(
            message=message,
            stop=self._reason(message),
            usage=usage_of(self._usage, ("prompt", "completion")),
            model=self._model,
            detail="refusal" if self._refused else self._stop,
            ignored=self._ignored,
        )

    def _reason(self, message: Message) -> StopReason:
        if self._refused:
            return stop_of("chat", "refusal")
        stop = stop_of("chat", self._stop)
        # Some servers say `stop` and ask for tools; the others say `tool_calls` and ask for none.
        if stop in {"end", "calls"}:
            return "calls" if message.calls else "end"
        return stop


def _first(event: Mapping[str, object]) -> Json:
    """The first of the answers; usage comes in chunks that have none."""
    choices = event.get("choices")
    for choice in choices if is_array(choices) else ():
        if is_object(choice) and not choice.get("index"):
            return choice
    return {}
