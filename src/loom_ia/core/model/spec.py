"""What a configuration says of a model, and what the engine sends to one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from loom_ia.core.model.blocks import Message
from loom_ia.core.model.usage import Pricing


class ModelSpec(BaseModel):
    """A model that agents may name. Secrets never stand here, only names of variables."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: str = Field(min_length=1)
    """Name by which agents refer to it."""
    sdk: str = Field(min_length=1)
    """Adapter that speaks to it: `fake`, or the name of an installed one."""
    model: str = Field(min_length=1)
    """Name that the provider knows."""
    params: dict[str, object] = Field(default_factory=dict[str, object])
    """Passed to the provider as they are; for `fake`, the script."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of one answer, reasoning included."""
    pricing: Pricing | None = None
    """Without it the cost of this model is unknown, never zero."""


class ToolSpec(BaseModel):
    """A tool as the model sees it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str
    description: str
    input_schema: dict[str, object]
    """JSON Schema (draft 2020-12) of the arguments, an object."""


StopReason = Literal["end", "calls", "length", "refusal", "filtered", "other"]


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
