"""What a configuration says of a server of tools, and of each tool that it offers."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from loom_ia.core.model.spec import CircuitBreaker
from loom_ia.core.ports.world import Approval, OnUnknown, SideEffects

_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

SourceScope = Literal["shared", "tenant", "run"]
MEBIBYTE = 1024 * 1024


class ToolRules(BaseModel):
    """What is declared of one tool of a server; it wins over what the server says of it."""

    model_config = _STRICT

    side_effects: SideEffects | None = None
    """What a call changes outside: decides what may be launched again after a crash."""
    approval: Approval | None = None
    """Whether a human decides before the call."""
    idempotent: bool | None = None
    """The tool may be launched again without harm."""
    on_unknown: OnUnknown | None = None
    """What becomes of a call of which nobody knows whether it acted."""
    timeout: float | None = Field(default=None, gt=0)
    """Seconds that one call may take."""


NO_RULES = ToolRules.model_construct()


class McpServer(BaseModel):
    """A server of tools that speaks the Model Context Protocol."""

    model_config = _STRICT

    name: str = Field(pattern="^[a-zA-Z0-9_-]{1,32}$")
    """Name that agents use, and prefix of its tools."""
    transport: Literal["stdio", "http"]
    """`stdio`: a program started here; `http`: an address (Streamable HTTP)."""
    command: str | None = Field(default=None, min_length=1)
    """Program to start; those installed beside Loom-IA's Python are found first."""
    args: tuple[str, ...] = Field(default=(), strict=False)
    """Its arguments; it runs in the folder of the configuration."""
    env: dict[str, str] = Field(default_factory=dict[str, str])
    """Variables given to it; of ours it receives only HOME, PATH, LANG and the like."""
    env_from: dict[str, str] = Field(default_factory=dict[str, str])
    """Variables given to it ← variables of ours; an empty one is not given."""
    url: str | None = Field(default=None, pattern="^https?://")
    """Address of the server."""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """Headers of every request."""
    headers_env: dict[str, str] = Field(default_factory=dict[str, str])
    """Headers of every request ← variables of the environment."""
    scope: SourceScope = "shared"
    """One connection for the process, for each tenant, or for each run."""
    tools: dict[str, ToolRules] = Field(default_factory=dict[str, ToolRules])
    """Declarations of its tools, by the name that it gives them."""
    connect_timeout: float = Field(default=15.0, gt=0)
    """Seconds given to a connection, the list of tools included."""
    max_message: int = Field(default=16 * MEBIBYTE, ge=1024)
    """Bytes of the largest message taken from it."""
    max_tools: int = Field(default=1000, ge=1)
    """Tools taken from it; the others are left, and the journal says so."""
    on_change: Literal["withdraw", "accept"] = "withdraw"
    """What becomes of a tool whose definition changes while the process runs: withdrawn until the
    next start, or taken as it is by the next run."""
    circuit_breaker: CircuitBreaker = Field(default_factory=CircuitBreaker)
    """When a server that does not answer is set aside for every run of the instance."""

    def rules(self, tool: str) -> ToolRules:
        """What is declared of one of its tools."""
        return self.tools.get(tool, NO_RULES)
