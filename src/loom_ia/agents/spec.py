"""What a person writes of an agent: its model, its prompt, its tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypeGuard

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from loom_ia.agents.budget import BudgetsSection
from loom_ia.core.plan import OnFailure
from loom_ia.core.ports import Approval, OnUnknown, SideEffects

_STRICT = ConfigDict(
    frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
)


class MainRole(BaseModel):
    """The model that drives the loop, and its system prompt."""

    model_config = _STRICT

    model: str = Field(min_length=1)
    """Id of one of the `models` of the configuration."""
    fallbacks: tuple[str, ...] = Field(default=(), strict=False)
    """Ids of the models asked when it fails, in order; a run stays on the one it went to."""
    system: str | None = None
    """System prompt, written here."""
    system_file: str | None = Field(default=None, min_length=1)
    """System prompt, as a file of `prompts_dir`."""

    @model_validator(mode="after")
    def _one_prompt(self) -> Self:
        if self.system is not None and self.system_file is not None:
            code = "two_prompts"
            raise PydanticCustomError(
                code, "both 'system' and 'system_file' are given; keep one of them"
            )
        return self


class ContractSection(BaseModel):
    """The form that an output must have."""

    model_config = _STRICT

    schema_: dict[str, object] | None = Field(default=None, alias="schema")
    """JSON Schema (draft 2020-12): the output is the JSON value that fits it."""
    schema_file: str | None = Field(default=None, min_length=1)
    """The same, as a JSON or YAML file; its path starts from the folder of `loom.yaml`."""
    must_match: str | None = Field(default=None, min_length=1)
    """Regular expression that must be found in it."""
    must_not_match: str | None = Field(default=None, min_length=1)
    """Regular expression that must not be found in it."""
    max_chars: int | None = Field(default=None, ge=1)
    """Characters that it may have."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        asked = (self.schema_, self.schema_file, self.must_match, self.must_not_match)
        if self.schema_ is not None and self.schema_file is not None:
            code = "two_schemas"
            raise PydanticCustomError(
                code, "both 'schema' and 'schema_file' are given; keep one of them"
            )
        if self.max_chars is None and not any(part is not None for part in asked):
            code = "empty_contract"
            raise PydanticCustomError(
                code,
                "this contract asks for nothing; give 'schema', 'schema_file', 'must_match', "
                "'must_not_match' or 'max_chars'",
            )
        return self


class PythonTool(BaseModel):
    """A Python function given to an agent; what is declared here wins over the decorator."""

    model_config = _STRICT

    python: str = Field(min_length=1)
    """Registered name, or `module:attribute`."""
    alias: str | None = Field(default=None, pattern="^[a-zA-Z0-9_-]{1,64}$")
    """Name that the model sees instead of the function's."""
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
    output: ContractSection | None = None
    """The form that what it gives must have; when it has not, the model is told why."""


class RepairSection(BaseModel):
    """How often a refused output may be given again."""

    model_config = _STRICT

    max_attempts: int = Field(default=1, ge=0, le=10)
    """Answers that the model may give again, told what is wrong."""


class OutputSection(ContractSection):
    """The form that an answer must have, and what is done of one that has not."""

    repair: RepairSection = Field(default_factory=RepairSection)
    """How often its author may correct it."""
    on_failure: OnFailure = "fail"
    """When it stays wrong: the run fails, it leaves marked unverified, or `fallback` leaves."""
    fallback: str | None = Field(default=None, min_length=1)
    """What leaves instead, with `on_failure: fallback`."""


class McpTools(BaseModel):
    """The tools of an MCP server given to an agent, under a prefix."""

    model_config = _STRICT

    mcp: str = Field(min_length=1)
    """Name of one of the `mcp_servers` of the configuration."""
    alias: str | None = Field(default=None, pattern="^[a-zA-Z0-9_-]{1,32}$")
    """Prefix that the model sees instead of the server's name: `alias__tool`."""
    include: tuple[str, ...] | None = Field(default=None, strict=False)
    """Names of the tools that are taken; all of them by default."""
    exclude: tuple[str, ...] = Field(default=(), strict=False)
    """Names of the tools that are left."""
    required: bool = False
    """Without this server the run fails; by default it goes on without its tools."""

    @property
    def prefix(self) -> str:
        """What stands before the names of its tools."""
        return self.alias or self.mcp

    def takes(self, name: str) -> bool:
        """Tell whether a tool of the server is given to the agent."""
        return (self.include is None or name in self.include) and name not in self.exclude


def _kind(entry: object) -> str:
    if isinstance(entry, McpTools) or (_mapping(entry) and "mcp" in entry):
        return "[mcp]"
    return "[python]"


def _mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)


ToolEntry = Annotated[
    Annotated[PythonTool, Tag("[python]")] | Annotated[McpTools, Tag("[mcp]")],
    Discriminator(_kind),
]
"""What gives tools to an agent, told apart by the key that it has."""


class PolicyHook(BaseModel):
    """A policy plugged into an agent."""

    model_config = _STRICT

    hook: str = Field(min_length=1)
    """Registered name, or `module:attribute`."""
    params: dict[str, object] = Field(default_factory=dict[str, object])
    """What the policy reads in `context.params`."""
    timeout: float | None = Field(default=None, gt=0)
    """Seconds that it may take; what the policy says of itself by default."""
    on_error: Literal["block", "allow"] | None = None
    """What an exception or a delay is taken for: a refusal, or nothing said."""


class ApprovalSection(BaseModel):
    """How an agent asks people."""

    model_config = _STRICT

    expires_in: float = Field(default=86400.0, gt=0, le=315_360_000)
    """Seconds given to decide."""
    on_expiry: Literal["deny", "fail"] = "deny"
    """What becomes of a call about which nobody decided: it is refused, or it ends the run."""
    scope: str = ""
    """Scope that the key of who decides must have; empty when any that may approve will do."""


class ExposeSection(BaseModel):
    """Through which doors others may reach an agent."""

    model_config = _STRICT

    rest: bool = True
    """`loom serve` offers it; otherwise it is as if it did not exist there."""
    mcp: bool = True
    """The MCP server offers it as a tool."""


class AgentSpec(BaseModel):
    """An agent: what drives it, what it may call, where it stops."""

    model_config = _STRICT

    name: str
    """Lower-case letters, digits, `-` and `_`, at most 63."""
    description: str = ""
    """What it is for, as other agents and clients read it."""
    main: MainRole
    """The model that drives it."""
    max_iterations: int = Field(default=10, ge=1)
    """Turns of the loop; at the bound the agent must answer without tools."""
    tools: tuple[ToolEntry, ...] = Field(default=(), strict=False)
    """What the model may call."""
    policies: tuple[PolicyHook, ...] = Field(default=(), strict=False)
    """Code that lets through, corrects, refuses or stops, at the points of the loop it declares."""
    output: OutputSection | None = None
    """The form that its answer must have."""
    approval: ApprovalSection = Field(default_factory=ApprovalSection)
    """How it asks people before the calls that need it."""
    expose: ExposeSection = Field(default_factory=ExposeSection)
    """Through which doors others may reach it; Python and the command line always may."""
    budget: BudgetsSection | None = None
    """What its runs may spend; each key written here wins over that of `budgets`."""
    timeout: float | None = Field(default=None, gt=0)
    """Seconds of driving time of a run, all its resumptions together."""
