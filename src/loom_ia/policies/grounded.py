"""`loom.grounded`: nothing is stated that the request, a tool or the configuration did not say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from loom_ia.core.model import Message, TextBlock, ToolResultBlock
from loom_ia.core.model.blocks import text_of
from loom_ia.core.policy import (
    CONTINUE,
    BeforeTool,
    Decision,
    Deny,
    OnOutput,
    PolicyContext,
    Repair,
    point_of,
)
from loom_ia.core.wording import Language, say
from loom_ia.policies.decorator import policy
from loom_ia.policies.fidelity import STATED, Sources, Ungrounded, ungrounded
from loom_ia.policies.items import KINDS, Kind, libraries
from loom_ia.policies.spelling import Spelling

Origin = Literal["request", "tools", "history", "context"]
_SHOWN: Final = 8
"""Items that a refusal names."""

libraries()  # a missing package is told when the policy is plugged, not at its first text


class GroundedParams(BaseModel):
    """What `params` of `loom.grounded` may hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    points: tuple[Literal["before_tool", "on_output"], ...] = ("before_tool", "on_output")
    """Where it speaks: on the arguments of tools, on the answer."""
    kinds: tuple[Kind, ...] | None = None
    """What must be grounded; in texts all but bare numbers, in JSON and in arguments these too."""
    values: tuple[str | int | float, ...] = ()
    """Declared values, as they would be written."""
    sources: tuple[Origin, ...] = ("request", "tools", "history", "context")
    """Where an item may come from, beside the declared values."""
    tools: tuple[str, ...] | None = None
    """Tools whose arguments are checked; None for all of them."""
    region: str = Field(default="FR", pattern="^[A-Z]{2}$")
    """Country of telephone numbers written without theirs."""
    month_first: bool = False
    """True when `12/07/2026` is in December."""


@policy(
    name="loom.grounded",
    points=["before_tool", "on_output"],
    decisions={"before_tool": ["deny"], "on_output": ["repair"]},
    params=GroundedParams,
)
def grounded(subject: BeforeTool | OnOutput, context: PolicyContext) -> Decision:
    """Refuse what states an amount, a date or an address that no source has."""
    params = GroundedParams.model_validate(context.params)
    if point_of(subject) not in params.points:
        return CONTINUE
    if isinstance(subject, OnOutput):
        structured = subject.text.lstrip()[:1] in {"{", "["}
        usual = KINDS if structured else STATED
        missing = ungrounded(subject.text, sources_of(context, params), params.kinds or usual)
        return Repair(report(missing, context.language)) if missing else CONTINUE
    if params.tools is not None and subject.spec.name not in params.tools:
        return CONTINUE
    missing = ungrounded(subject.arguments, sources_of(context, params), params.kinds or KINDS)
    return Deny(report(missing, context.language)) if missing else CONTINUE


def sources_of(context: PolicyContext, params: GroundedParams) -> Sources:
    """Everything that may be quoted in a run. What the model itself wrote never is."""
    today = None if context.at is None else context.at.date()
    spelling = Spelling(month_first=params.month_first, today=today)
    sources, language = Sources(spelling, region=params.region), context.language
    for origin, name, text in _texts(context, language):
        if origin in params.sources:
            sources.add(name, text)
    for value in params.values:
        sources.add(say(language, "source_values"), str(value))
    return sources


def _texts(context: PolicyContext, language: Language) -> Iterator[tuple[Origin, str, str]]:
    for message in context.messages[:1]:  # the others tell the model what it invented
        yield "request", say(language, "source_request"), message.text
    for message in context.messages:
        for tool, text in _results(message):
            yield "tools", say(language, "source_tool", tool=tool), text
    history = say(language, "source_history")
    for message in context.history:
        if message.role == "user":
            yield "history", history, message.text
        for _, text in _results(message):
            yield "history", history, text
    for text in _values(context.caller):
        yield "context", say(language, "source_context"), text


def _results(message: Message) -> Iterator[tuple[str, str]]:
    """Results of tools, part by part; those of refused or failed calls may quote the model."""
    for block in message.blocks:
        if isinstance(block, ToolResultBlock) and not block.is_error:
            for part in block.content:
                if isinstance(part, TextBlock):
                    yield block.name, text_of((part,))


def _values(value: object) -> Iterator[str]:
    match value:
        case Mapping():
            for below in value.values():  # pyright: ignore[reportUnknownVariableType] reason: JSON
                yield from _values(below)  # pyright: ignore[reportUnknownArgumentType] reason: JSON
        case list() | tuple():
            for below in value:  # pyright: ignore[reportUnknownVariableType] reason: JSON
                yield from _values(below)  # pyright: ignore[reportUnknownArgumentType] reason: JSON
        case _:
            yield str(value)


def report(missing: Sequence[Ungrounded], language: Language) -> str:
    """Each item that is not grounded, where it was looked for, and what comes close."""
    told = ", ".join(_told(one, language) for one in missing[:_SHOWN])
    more = len(missing) - _SHOWN
    looked = ", ".join(missing[0].looked) or "-"
    return say(
        language, "ungrounded", looked=looked, items=f"{told} (+{more})" if more > 0 else told
    )


def _told(one: Ungrounded, language: Language) -> str:
    kind = say(language, f"item_{one.item.kind}")
    text = say(language, "ungrounded_item", kind=kind, text=one.item.text)
    if one.computed:
        return text + say(language, "ungrounded_computed", computed=one.computed)
    return text + say(language, "ungrounded_closest", closest=one.closest) if one.closest else text
