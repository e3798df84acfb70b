"""Facts about questions to humans and what they decided."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AwareDatetime

from loom_ia.core.cleaning import CleanJson, CleanText
from loom_ia.core.events.envelope import CannotApplyError, Outcome
from loom_ia.core.events.model import refusal
from loom_ia.core.events.run import Principal
from loom_ia.core.events.tool import CallFact
from loom_ia.core.model import TextBlock, ToolResultBlock
from loom_ia.core.omit import EMPTY, NONE
from loom_ia.core.sameness import same_call
from loom_ia.core.state import RunState


class ApprovalRequested(CallFact):
    """A human must decide before this call goes on."""

    type: ClassVar[str] = "approval.requested"
    content: ClassVar[frozenset[str]] = frozenset({"arguments", "reason"})

    tool: CleanText
    arguments: CleanJson
    """What the human is shown and what would leave."""
    why: Literal["declared", "policy", "unknown", "changed"] = "declared"
    """`unknown`: it left and nobody knows whether it acted; `changed`: the tool is no longer the
    one that was asked about."""
    definition: Annotated[str, EMPTY] = ""
    """Digest of the tool's definition when the question was asked."""
    expires_at: Annotated[AwareDatetime | None, NONE] = None
    scope: Annotated[str, EMPTY] = ""
    """Scope that the key of who decides must have."""
    reason: Annotated[CleanText, EMPTY] = ""
    """Why a policy wants a human to decide."""
    policies: Annotated[tuple[str, ...], EMPTY] = ()
    """Policies that paused on these arguments; the decision answers all of them."""
    again: Annotated[bool, EMPTY] = False
    """A policy changed arguments that had been approved: this asks about the new ones, once."""
    previous: Annotated[str, EMPTY] = ""
    """Status of the call before the question, when a human has to judge a launch."""

    @property
    def outcome(self) -> Outcome:
        return "waiting"

    def evolve(self, state: RunState) -> RunState:
        self.of(state)
        return state.with_call(self.call_id, status="held", request=self, arguments=self.arguments)


class Decided(CallFact):
    """A human's decision; the first one recorded on a request is the one."""

    by: Principal
    on_behalf_of: Annotated[CleanText, EMPTY] = ""
    reason: Annotated[CleanText, EMPTY] = ""


class ApprovalGranted(Decided):
    """The call may leave, once."""

    type: ClassVar[str] = "approval.granted"
    content: ClassVar[frozenset[str]] = frozenset({"arguments", "reason", "text"})

    arguments: Annotated[CleanJson | None, NONE] = None
    """Corrected arguments; None when the human kept those shown."""
    text: Annotated[CleanText, EMPTY] = ""
    """What the model is told of the correction."""

    def evolve(self, state: RunState) -> RunState:
        call = self.of(state, "held")
        arguments = call.arguments if self.arguments is None else self.arguments
        changes: dict[str, object] = {"status": "granted", "arguments": arguments}
        if self.text:
            changes["note"] = self.text
        return state.with_call(self.call_id, **changes)


class ApprovalRejected(Decided):
    """The call will not leave, or will not leave again."""

    type: ClassVar[str] = "approval.rejected"
    content: ClassVar[frozenset[str]] = frozenset({"reason", "text"})

    text: CleanText
    """What the model is told."""

    @property
    def outcome(self) -> Outcome:
        return "refused"

    def evolve(self, state: RunState) -> RunState:
        call = self.of(state, "held")
        settled = state.settle(self.call_id, refusal(call, self.text))
        if call.launches:
            return settled.doubting(call)
        if call.request is None or call.request.why == "unknown":
            return settled
        return settled.evolve(rejected=state.rejected | {same_call(call.name, call.arguments)})


class ApprovalSettled(Decided):
    """A human said whether a call of unknown outcome had acted, while it waited or afterwards."""

    type: ClassVar[str] = "approval.settled"
    after_end: ClassVar[bool] = True
    content: ClassVar[frozenset[str]] = frozenset({"reason", "text"})

    happened: bool
    text: CleanText
    """What the model is told."""

    def evolve(self, state: RunState) -> RunState:
        call = state.call(self.call_id)
        result = ToolResultBlock(
            call_id=self.call_id,
            name="" if call is None else call.name,
            content=(TextBlock(text=self.text),),
            is_error=not self.happened,
        )
        if self.call_id in state.doubts:
            return state.undoubting(result)
        if state.ending is None:
            self.of(state, "held")
        elif self.call_id not in state.unsettled:
            raise CannotApplyError
        return state.settle(self.call_id, result)


class ApprovalExpired(CallFact):
    """Nobody decided in time."""

    type: ClassVar[str] = "approval.expired"

    text: CleanText
    """What the model is told."""

    @property
    def outcome(self) -> Outcome:
        return "refused"

    def evolve(self, state: RunState) -> RunState:
        call = self.of(state, "held")
        settled = state.settle(self.call_id, refusal(call, self.text))
        return settled.doubting(call) if call.launches else settled
