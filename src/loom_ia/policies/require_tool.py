"""`loom.require_tool`: the model must use a tool before it answers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from loom_ia.core.policy import CONTINUE, AfterModel, Decision, PolicyContext, Repair
from loom_ia.core.wording import say
from loom_ia.policies.decorator import policy


class RequireToolParams(BaseModel):
    """What `params` of `loom.require_tool` may hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tools: tuple[str, ...] = ()
    """Tools that count; any does when none is named."""


@policy(
    name="loom.require_tool",
    points=["after_model"],
    decisions=["repair"],
    params=RequireToolParams,
)
async def require_tool(subject: AfterModel, context: PolicyContext) -> Decision:
    """Refuse an answer while no tool has answered; a last one may call none, and is let through."""
    wanted = RequireToolParams.model_validate(context.params).tools
    if subject.calls or subject.final or any(name in (wanted or (name,)) for name in subject.used):
        return CONTINUE
    key = "use_one_of" if wanted else "use_a_tool"
    return Repair(say(context.language, key, names=", ".join(wanted)))
