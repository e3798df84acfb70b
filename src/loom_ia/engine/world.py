"""The ports of one drive, and what passes between the interpreter and the driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from loom_ia.core.events import Event, Payload
from loom_ia.core.model import (
    Discard,
    Files,
    Message,
    ModelSpec,
    Pricing,
    TextDelta,
    ToolSpec,
)
from loom_ia.core.plan import Plan
from loom_ia.core.ports import (
    Blobs,
    Check,
    Clock,
    Form,
    Idempotency,
    Ids,
    Journal,
    KeyRule,
    Leases,
    Model,
    RunIndex,
    RunRef,
    Tool,
    ToolContext,
)
from loom_ia.core.pricing import Prices
from loom_ia.core.state import Call, RunState
from loom_ia.core.wording import Language
from loom_ia.engine.policing import Hook
from loom_ia.engine.resilience import Breaker, Seat

Shown = TextDelta | Discard | Event
"""What a follower of a run sees; what models think is for nobody."""

PARALLEL = 16
TOOL_TIMEOUT = 30.0
GRACE = 10.0
"""Seconds given to what was asked to stop."""


def unseen(_shown: Shown) -> None:
    """Show nothing: nobody watches."""


def nowhere(_model: str, _param: str) -> str:
    """No file gives a parameter."""
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Everything that one agent may touch during a run."""

    plan: Plan
    spec: ModelSpec
    model: Model
    system: str
    tools: Mapping[str, Tool]
    specs: Sequence[ToolSpec]
    language: Language
    settles: Mapping[str, Check] = field(default_factory=dict[str, Check])
    """Checks of unknown outcomes, of the tools that have one."""
    keys: Mapping[str, KeyRule] = field(default_factory=dict[str, KeyRule])
    """Of the tools whose effect is remembered under a key."""
    timeouts: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds allowed to each tool; the others have `tool_timeout`."""
    tool_timeout: float = TOOL_TIMEOUT
    parallel: int = PARALLEL
    before_tool: Sequence[Hook] = ()
    """Policies that speak on a call before it is asked about and before it leaves, in order."""
    before_model: Sequence[Hook] = ()
    """Policies that speak on each request of the main model."""
    after_model: Sequence[Hook] = ()
    """Policies that speak on each of its answers."""
    after_tool: Sequence[Hook] = ()
    """Policies that speak on what tools give."""
    on_output: Sequence[Hook] = ()
    """Policies that speak on the answer of the run."""
    forms: Mapping[str, Form] = field(default_factory=dict[str, Form])
    """Forms that what tools give must have, by the name of the tool."""
    contract: Form | None = None
    """The form that the answer must have."""
    breaker: Breaker | None = None
    fallbacks: Sequence[Seat] = ()
    """Models asked when the first one fails, in order."""
    prices: Prices = field(default_factory=dict[str, Pricing])
    files: Files | None = None
    """Reads what messages name."""
    schema: Mapping[str, object] | None = None
    """JSON Schema of the answer, which its contract holds it to."""
    place: Callable[[str, str], str] = nowhere
    """Where the configuration gives a parameter to a model."""
    equip: Callable[[Scene], AbstractAsyncContextManager[None]] | None = None
    """Opens the sources of tools for one drive, and gives its scene a world that has them; None
    when every tool is already here."""
    parts: dict[str, bytes] = field(init=False, default_factory=dict[str, bytes])
    """What a request holds before its messages, as it is digested; written once."""

    @property
    def judged(self) -> bool:
        """True when what the model says may be refused before it leaves."""
        return bool(self.plan.checks or self.plan.turn_checks)

    @property
    def seats(self) -> Sequence[Seat]:
        """The models that may serve, in order."""
        return (Seat(self.spec, self.model, self.breaker), *self.fallbacks)


@dataclass(frozen=True, slots=True, eq=False)
class Ports:
    """What a process lends to its drives."""

    journal: Journal
    leases: Leases
    blobs: Blobs
    clock: Clock
    ids: Ids
    holder: str
    """Names this process to people; it plays no part in any decision."""
    lease: float = 60.0
    """Seconds."""
    grace: float = GRACE
    """Seconds given to what was asked to stop."""
    keys: Idempotency | None = None
    """Where idempotency keys are reserved; None: the journal is enough for those of one call."""
    index: RunIndex | None = None
    """Who drives the other runs, and what they spend; None: nobody knows."""


@dataclass(slots=True, eq=False)
class Scene:
    """One run being driven: where it is, who watches, what came before it."""

    ref: RunRef
    world: World
    ports: Ports
    history: Sequence[Message] = ()
    history_digest: str = ""
    """Where the history ends: `seq:<position in the session>`; empty without one."""
    doubts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Calls of earlier runs of the session whose outcome nobody knew: what they asked for, and the
    run of each."""
    show: Callable[[Shown], None] = unseen
    state: RunState | None = None
    """State of the run as it was read last, if it was."""
    opening: Sequence[Payload] = ()
    """Facts about what was opened for this drive, written once the run is claimed."""
    notices: Callable[[], Sequence[Payload]] | None = None
    """Facts about what has moved outside since it was last asked."""

    def context(self, state: RunState, call: Call, fence: int) -> ToolContext:
        """What a tool may know of its call."""
        ref = self.ref
        caller = state.started.options.context if state.started else {}
        return ToolContext(
            tenant_id=ref.tenant_id,
            session_id=ref.session_id,
            run_id=ref.run_id,
            call_id=call.id,
            idempotency_key=self.key(state, call),
            fence=fence,
            caller=caller,
        )

    def key(self, state: RunState, call: Call) -> str:
        """Idempotency key of a call, as its tool and the journal know it.

        Raises:
            KeyFaultError: the tool gives no usable business key for these arguments.

        """
        rule = self.world.keys.get(call.name)
        if rule is None or rule.of is None:
            return f"{self.ref.run_id}:{state.turns}:{call.index}"
        return f"{self.ref.tenant_id}:{rule.of(call.arguments)}"
