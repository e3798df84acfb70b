"""Answers written in advance, played by the fake model and by `ScriptedModel`."""

from __future__ import annotations

import re
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from loom_ia.core.failures import (
    ModelAuthError,
    ModelError,
    ModelOverflowError,
    ModelQuotaError,
    ModelRefusedError,
    ModelRequestError,
    ModelTransientError,
)
from loom_ia.core.model.blocks import AnyBlock, Message, TextBlock, ToolCallBlock
from loom_ia.core.model.estimate import output_tokens
from loom_ia.core.model.spec import ModelRequest
from loom_ia.core.model.stream import Answer
from loom_ia.core.model.usage import Usage
from loom_ia.core.text import Text

_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


_WORD = re.compile(r"\S+\s*|\s+")


class ScriptCall(BaseModel):
    """A tool that the model asks for."""

    model_config = _STRICT

    name: str = Field(min_length=1)
    arguments: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


KINDS: dict[str, type[ModelError]] = {
    "rate_limit": ModelTransientError,
    "overloaded": ModelTransientError,
    "server": ModelTransientError,
    "timeout": ModelTransientError,
    "network": ModelTransientError,
    "quota": ModelQuotaError,
    "auth": ModelAuthError,
    "invalid_request": ModelRequestError,
    "refusal": ModelRefusedError,
    "context": ModelOverflowError,
}
"""Words of a script that name a class of failure; another word says nothing of it."""


class ScriptError(BaseModel):
    """A failure in the place of an answer."""

    model_config = _STRICT

    kind: str = ""
    """Word that says what failed: `rate_limit`, `auth`, …"""
    message: str = ""
    retry_after: float | None = Field(default=None, ge=0)
    """Seconds that the provider asks to wait."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return {"message": value} if isinstance(value, str) else value

    @property
    def reason(self) -> str:
        """Kind and message, as people read them."""
        return ": ".join(part for part in (self.kind, self.message) if part) or "scripted error"

    def failure(self, model: str) -> ModelError:
        """What a model of this id raises; such a failure consumed nothing."""
        kind = KINDS.get(self.kind, ModelError)
        usage = Usage() if self.kind in KINDS else None
        return kind(usage=usage, retry_after=self.retry_after, model=model, reason=self.reason)


class Turn(BaseModel):
    """One answer of a script."""

    model_config = _STRICT

    text: str = ""
    tool_calls: tuple[ScriptCall, ...] = ()
    error: ScriptError | None = None
    delay: float = Field(default=0.0, ge=0)
    """Seconds before it."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set & {"text", "tool_calls", "error"}:
            code = "empty_turn"
            raise PydanticCustomError(code, "needs 'text', 'tool_calls' or 'error'")
        return self


def answer(turn: Turn, position: int, input_tokens: int) -> Answer:
    """The answer of a turn; its calls are named `fake_<position>_<index>`."""
    blocks: list[AnyBlock] = [TextBlock.of(turn.text)] if turn.text else []
    for index, call in enumerate(turn.tool_calls):
        arguments: dict[str, object] = {**call.arguments}
        identifier = f"fake_{position}_{index}"
        blocks.append(ToolCallBlock(id=identifier, name=call.name, arguments=arguments))
    message = Message(role="assistant", blocks=tuple(blocks))
    return Answer(
        message=message,
        stop="calls" if turn.tool_calls else "end",
        usage=Usage(input=input_tokens, output=output_tokens(message)),
    )


def words(text: str) -> list[str]:
    """Words of a text with the blanks behind them; joined, they are the text."""
    return _WORD.findall(text)


def exhausted(request: ModelRequest, written: int) -> ModelError:
    """Failure of a script that has no turn at this position."""
    reason = Text(
        "script exhausted: turn {turn}, {written} written",
        {"turn": request.turn + 1, "written": written},
    )
    return ModelError(model=request.spec.id, reason=reason)
