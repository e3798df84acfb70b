"""What the planner must know of an agent: compiled once, the same for every run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from loom_ia.core.budget import UNLIMITED, Budget
from loom_ia.core.ports.world import Approval, OnUnknown, SideEffects

MAX_ITERATIONS = 10
CRASHES = 5


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """Rules of one tool."""

    side_effects: SideEffects | None = None
    """None: not declared."""
    idempotent: bool = False
    approval: Approval = "never"
    on_unknown: OnUnknown = "error"
    child: bool = False
    """True for a sub-agent."""
    terminal: bool = False
    """True when its output, called alone, is the answer."""
    settles: bool = False
    """True when a read-only check may settle its unknown outcomes: one that it declares, or that of
    the results kept under its idempotency keys."""
    definition: str = ""
    """Digest of what the model is shown of it."""
    checks: tuple[str, ...] = ()
    """Checks of what it gives, in order."""

    @property
    def repeatable(self) -> bool:
        """True when one more launch after an unknown outcome does no harm."""
        return self.side_effects == "none" or self.idempotent


UNDECLARED = ToolPlan()


@dataclass(frozen=True, slots=True)
class Asking:
    """How an agent asks people."""

    expires_in: timedelta = timedelta(hours=24)
    """Time given to decide."""
    on_expiry: Literal["deny", "fail"] = "deny"
    """What becomes of a call about which nobody decided: it is refused, or it ends the run."""
    scope: str = ""
    """Scope that the key of who decides must have; empty when any that may approve will do."""


ASKING = Asking()


OnFailure = Literal["fail", "unverified", "fallback"]


@dataclass(frozen=True, slots=True)
class Remedy:
    """What is done of an answer that a check refuses."""

    max_repairs: int = 1
    """Answers that its author may give again for this check."""
    on_failure: OnFailure = "fail"
    fallback: str = ""
    """Answer that leaves instead, under `fallback`."""


REMEDY = Remedy()


@dataclass(frozen=True, slots=True)
class Plan:
    """Rules of one agent."""

    tools: Mapping[str, ToolPlan] = field(default_factory=dict[str, ToolPlan])
    max_iterations: int = MAX_ITERATIONS
    timeout: timedelta | None = None
    """Driving time of a run, cumulated."""
    asking: Asking = ASKING
    max_calls: int | None = None
    """Launches of tools in a run."""
    turn_checks: tuple[str, ...] = ()
    """Policies that speak on each answer of the main model, in order."""
    checks: tuple[str, ...] = ()
    """Checks of an answer, in order."""
    remedies: Mapping[str, Remedy] = field(default_factory=dict[str, Remedy])
    """What is done of what each of them refuses, where it is not the usual."""
    fallback: str = ""
    """Answer that leaves when a last answer is empty."""
    budget: Budget = UNLIMITED
    """What may be spent."""

    def of(self, name: str) -> ToolPlan:
        """Rules of a tool; a tool that is not there has those of an undeclared one."""
        return self.tools.get(name, UNDECLARED)

    def remedy(self, check: str) -> Remedy:
        """What is done of what a check refuses."""
        return self.remedies.get(check, REMEDY)
