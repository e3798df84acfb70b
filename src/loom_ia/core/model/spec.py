"""What a configuration says of a model, and what the engine sends to one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from loom_ia.core.model.blocks import Message
from loom_ia.core.model.usage import Pricing
from loom_ia.core.wording import Language

Files = Callable[[str], Awaitable[bytes | None]]
"""Content of a file by its address; None when it is no longer there."""

_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Timeouts(BaseModel):
    """Seconds that a model may take."""

    model_config = _STRICT

    first_token: float = Field(default=60.0, gt=0)
    """Before the first piece of its answer."""
    idle: float = Field(default=60.0, gt=0)
    """Between two pieces; what carries no content does not count."""
    total: float = Field(default=300.0, gt=0)
    """For the whole answer."""


class Retry(BaseModel):
    """How often the same request is sent to the same model."""

    model_config = _STRICT

    max_attempts: int = Field(default=3, ge=1)
    """Requests in all, the first included."""
    delay: float = Field(default=1.0, ge=0)
    """Seconds before the second; each next delay is twice as long, a part of it drawn."""
    max_delay: float = Field(default=30.0, ge=0)
    """Longest delay; a provider that asks for more is given up."""


class CircuitBreaker(BaseModel):
    """When a failing model is set aside for every run of the instance."""

    model_config = _STRICT

    failures: int = Field(default=5, ge=1)
    """Failures in a row that open it."""
    cooldown: float = Field(default=60.0, ge=0)
    """Seconds before one call may try again."""


class Capabilities(BaseModel):
    """What a model can do; checked against what agents ask of it."""

    model_config = _STRICT

    tools: bool = True
    """It can call tools."""
    vision: bool = False
    """It can read images; to others, files are mentioned."""
    pdf: bool = False
    """It can read PDF files."""
    thinking: bool = False
    """It reasons before it answers."""
    native_json: bool = False
    """It can be held to a JSON schema by its provider."""
    forced_tool: bool = True
    """It can be obliged to call a tool."""
    context_window: int | None = Field(default=None, ge=1)
    """Tokens that it can read."""
    refused_params: tuple[str, ...] = ()
    """Keys of `params` that it does not accept."""
    returns_reasoning: bool = False
    """Inside a tool loop it wants back the visible reasoning (`reasoning_content`)."""


class CachePoints(BaseModel):
    """What the provider is asked to keep from one request to the next."""

    model_config = _STRICT

    system: bool = False
    """The system prompt."""
    tools: bool = False
    """The descriptions of the tools."""
    messages: bool = False
    """The conversation so far."""


class Capture(BaseModel):
    """What the journal keeps of the exchanges with the provider."""

    model_config = _STRICT

    raw_exchanges: bool = False
    """Each HTTP exchange, without keys or file contents."""


class ModelSpec(BaseModel):
    """A model that agents may name. Secrets never stand here, only names of variables."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: str = Field(min_length=1)
    """Name by which agents refer to it."""
    sdk: str = Field(min_length=1)
    """Adapter that speaks to it: `fake`, or the name of an installed one."""
    model: str = Field(min_length=1)
    """Name that the provider knows."""
    api: Literal["chat", "responses"] | None = None
    """API of an `openai` server; `chat` when nothing is said."""
    base_url: str | None = Field(default=None, pattern="^https?://")
    """Address of the server; the provider's own when nothing is said."""
    api_key_env: str | None = Field(default=None, min_length=1)
    """Variable that holds the key; a local server needs none."""
    params: dict[str, object] = Field(default_factory=dict[str, object])
    """Passed to the provider as they are; for `fake`, the script."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of one answer, reasoning included."""
    timeouts: Timeouts | None = None
    """Delays; a model called over the network has 60, 60 and 300 s."""
    retry: Retry = Field(default_factory=Retry)
    """What is done of passing failures."""
    circuit_breaker: CircuitBreaker = Field(default_factory=CircuitBreaker)
    """When it is set aside."""
    capabilities: Capabilities = Field(default_factory=Capabilities)
    """What it can do."""
    cache: CachePoints = Field(default_factory=CachePoints)
    """Prompt cache points."""
    capture: Capture = Field(default_factory=Capture)
    """What is kept of the exchanges."""
    pricing: Pricing | None = None
    """Without it the cost of this model is unknown, never zero."""

    @property
    def origin(self) -> str:
        """Marks reasoning that only this model reads back: its API, address, name and account."""
        api = "/responses" if self.api == "responses" else ""
        return f"{self.sdk}{api}:{self.base_url or ''}:{self.model}:{self.api_key_env or ''}"


class ToolSpec(BaseModel):
    """A tool as the model sees it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str
    description: str
    input_schema: dict[str, object]
    """JSON Schema (draft 2020-12) of the arguments, an object."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model; the conversation is a view that grows, never a copy."""

    spec: ModelSpec
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    turn: int
    """Model turns of the run before this one; scripts are read at this position."""
    final: bool = False
    """An answer without tools is wanted; `tools` is empty."""
    declared: Sequence[ToolSpec] = ()
    """Tools of the conversation that a last answer may not call: some servers refuse a
    conversation that holds calls without them."""
    note: str = ""
    """What a last answer is told after the system prompt, which stays as it was."""
    files: Files | None = None
    """Reads the images and files that messages name."""
    language: Language = "fr"
    """Of what the engine itself tells the model."""
    schema: Mapping[str, object] | None = None
    """JSON Schema of the answer, in full; a provider is sent what it takes of it, or nothing."""
