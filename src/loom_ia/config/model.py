"""The configuration as models: what `loom.yaml` holds, or what Python code builds."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from loom_ia.agents.budget import BudgetsSection
from loom_ia.agents.spec import AgentSpec
from loom_ia.core.model import ModelSpec
from loom_ia.core.sources import McpServer

_STRICT = ConfigDict(
    frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
)

ProfileName = Literal["dev", "prod"]
MEBIBYTE = 1024 * 1024


class StorageBackend(BaseModel):
    """A store by its name; its other settings belong to the backend."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, defer_build=True)

    backend: str = Field(min_length=1)
    """Name of the backend."""

    @property
    def settings(self) -> dict[str, object]:
        """What is written beside `backend`, not yet checked."""
        return dict(self.__pydantic_extra__ or {})


class StorageSection(BaseModel):
    """Where runs and files are kept."""

    model_config = _STRICT

    events: StorageBackend = StorageBackend.model_construct(backend="memory")
    """The journal."""
    artifacts: StorageBackend | None = None
    """Files; without it they follow the journal."""
    idempotency: StorageBackend = StorageBackend.model_construct(backend="journal")
    """Keys of the tools whose effect is remembered; those that runs share want a database."""
    bus: StorageBackend = StorageBackend.model_construct(backend="memory")
    """What wakes followers; they look by themselves every half second all the same."""


class AttachmentsSection(BaseModel):
    """Limits of the files given with a request."""

    model_config = _STRICT

    max_bytes: int = Field(default=5 * MEBIBYTE, ge=1)
    """Size of one file."""
    max_files: int = Field(default=10, ge=0)
    """Files of one request."""


class ExecutionSection(BaseModel):
    """Delays and limits of every run."""

    model_config = _STRICT

    lease: float = Field(default=60.0, ge=1)
    """Seconds during which a driver holds a run without renewing."""
    tool_timeout: float = Field(default=30.0, gt=0)
    """Seconds that a tool call may take, unless the tool says otherwise."""
    parallel_calls: int = Field(default=16, ge=1)
    """Tool calls of one turn that run at the same time."""
    parallel_runs: int = Field(default=16, ge=1)
    """Runs in the background that one process drives at the same time; the others wait."""
    attachments: AttachmentsSection = Field(default_factory=AttachmentsSection)
    """Limits of the files given with a request."""


class QuotasSection(BaseModel):
    """How much each tenant may ask for."""

    model_config = _STRICT

    runs_per_minute: int | None = Field(default=None, ge=1)
    """Runs that a tenant may start within any minute, by all doors and processes together."""


class LoggingSection(BaseModel):
    """Technical logs, apart from the journal."""

    model_config = _STRICT

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    """In INFO, one line for each call of a model or a tool."""
    format: Literal["console", "json"] = "console"
    """One readable line, or one JSON object."""


class CaptureSection(BaseModel):
    """What is kept beyond what runs need."""

    model_config = _STRICT

    raw_exchanges: bool = False
    """The journal keeps each HTTP exchange with a provider, without keys or file contents."""


class TelemetrySection(BaseModel):
    """What is told of what happens."""

    model_config = _STRICT

    logging: LoggingSection = Field(default_factory=LoggingSection)
    """Technical logs."""
    capture: CaptureSection = Field(default_factory=CaptureSection)
    """What is kept of the exchanges with the providers of every model."""


class ServerSection(BaseModel):
    """What `loom serve` offers to others."""

    model_config = _STRICT

    host: str = Field(default="127.0.0.1", min_length=1)
    """Address on which it listens; only this machine reaches the default one."""
    port: int = Field(default=8000, ge=0, le=65535)
    """Port on which it listens; 0 takes a free one."""
    heartbeat: float = Field(default=15.0, gt=0, le=3600)
    """Seconds of silence after which a stream of events says that it lives."""


class LoomConfig(BaseModel):
    """Configuration of Loom-IA."""

    model_config = _STRICT

    version: Literal[1]
    """Version of this format."""
    profile: ProfileName | None = None
    """Active profile, unless --profile or LOOM_PROFILE names another."""
    imports: tuple[str, ...] = Field(default=(), strict=False)
    """Python modules loaded at the start: those beside this file, or installed ones."""
    agents_dir: str = Field(default="agents/", min_length=1)
    """Folder of the agents, one file each."""
    prompts_dir: str = Field(default="prompts/", min_length=1)
    """Folder of the prompts."""
    language: Literal["fr", "en"] = "fr"
    """Language of what Loom-IA itself tells the models."""
    models: tuple[ModelSpec, ...] = Field(default=(), strict=False)
    """Models that agents may name."""
    mcp_servers: tuple[McpServer, ...] = Field(default=(), strict=False)
    """Servers of tools that agents may name."""
    agents: tuple[AgentSpec, ...] = Field(default=(), strict=False)
    """Agents written here rather than in files."""
    storage: StorageSection = Field(default_factory=StorageSection)
    """Where runs and files are kept."""
    execution: ExecutionSection = Field(default_factory=ExecutionSection)
    """Delays and limits of every run."""
    budgets: BudgetsSection = Field(default_factory=BudgetsSection)
    """What runs, sessions and tenants may spend, unless an agent says otherwise."""
    quotas: QuotasSection = Field(default_factory=QuotasSection)
    """How many runs a tenant may start."""
    telemetry: TelemetrySection = Field(default_factory=TelemetrySection)
    """What is told of what happens."""
    server: ServerSection = Field(default_factory=ServerSection)
    """What `loom serve` offers to others."""
    profiles: dict[ProfileName, dict[str, object]] = Field(
        default_factory=dict[ProfileName, dict[str, object]]
    )
    """What each profile changes of the other keys; lists are replaced, not joined."""
