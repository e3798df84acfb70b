"""What must be read, imported and checked before anything is opened; all of it may block."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import BaseModel

from loom_ia.agents.compile import Compiled, Workshop, compile_agent, declared_name
from loom_ia.agents.spec import McpTools
from loom_ia.config.checks import (
    Installed,
    ToolFacts,
    check_installed,
    check_keys,
    check_policies,
    check_tools,
    refuse,
)
from loom_ia.config.errors import dotted
from loom_ia.config.extras import missing_package
from loom_ia.config.imports import Project
from loom_ia.config.model_checks import check_chains
from loom_ia.config.problems import validated
from loom_ia.core.model import Capture, ModelRequest, ModelSpec
from loom_ia.core.model.estimate import Estimate
from loom_ia.core.ports import Artifacts, Clock, Ids, Model
from loom_ia.core.text import Text
from loom_ia.engine.resilience import breakers_of
from loom_ia.engine.world import Ports, World
from loom_ia.policies.decorator import declared
from loom_ia.policies.provided import provided
from loom_ia.runtime import catalog
from loom_ia.runtime.catalog import (
    ArtifactsSettings,
    BusSettings,
    IdempotencySettings,
    ModelSettings,
    SourceSettings,
    StoreSettings,
)
from loom_ia.runtime.late import LateOutcomes

if TYPE_CHECKING:
    from loom_ia.agents.spec import AgentSpec
    from loom_ia.config.errors import Issue
    from loom_ia.config.loaded import Agent, Loaded

S = TypeVar("S", bound=BaseModel)
EVENTS = ("storage", "events")


@dataclass(frozen=True, slots=True, eq=False)
class Mounting:
    """What is ready to be opened."""

    loaded: Loaded
    environment: object
    store: StoreSettings
    artifacts: ArtifactsSettings
    keys: IdempotencySettings
    bus: BusSettings
    models: Mapping[str, ModelSettings]
    sources: Mapping[str, SourceSettings]
    """Of the servers of tools that agents use, by name."""
    given: Mapping[str, Model]
    """Models registered under the id of one of the configuration."""
    project: Project
    clock: Clock
    ids: Ids
    holder: str


def prepare(loaded: Loaded, given: Mapping[str, object]) -> Mounting:
    """Find the adapters, check their settings, import the project. Blocks.

    Raises:
        ConfigError: something is not there, or is wrong.

    """
    refuse(check_installed(loaded, _installed()))
    events, bus = loaded.config.storage.events, loaded.config.storage.bus
    kind = _found(Text("Journal"), events.backend, catalog.store_settings)
    store = validated(kind, loaded.source, EVENTS, value=events.settings)
    wakes = _found(Text("Bus"), bus.backend, catalog.bus_settings)
    project = Project(loaded, declared_name)
    for name, value in given.items():
        project.register(name, value)
    replaced = _registered(loaded, given)
    models = _models(loaded, replaced)
    clock, ids = catalog.system()
    mounting = Mounting(
        loaded=loaded,
        environment=catalog.environment(loaded.root, dict(os.environ)),
        store=store,
        artifacts=_artifacts(loaded, store),
        keys=_keys(loaded),
        bus=validated(wakes, loaded.source, ("storage", "bus"), value=bus.settings),
        models=models,
        sources=_sources(loaded),
        given=replaced,
        project=project,
        clock=clock,
        ids=ids,
        holder=f"{socket.gethostname()}:{os.getpid()}",
    )
    project.import_all()
    return mounting


def compiled(
    mounting: Mounting, models: Mapping[str, Model], artifacts: Artifacts, ports: Ports
) -> Mapping[str, Compiled]:
    """The agents, by name. Blocks.

    Raises:
        ConfigError: a tool is not found.

    """
    late = LateOutcomes(ports)
    remembers = ports.keys is not None and ports.keys.shared
    workshop = replace(_workshop(mounting, models, artifacts, late), remembers=remembers)
    agents = mounting.loaded.agents
    return {a.spec.name: compile_agent(a.spec, a.prompt, workshop) for a in agents}


def tool_warnings(
    loaded: Loaded, agents: Mapping[str, Compiled], *, durable: bool, shared: bool
) -> tuple[Issue, ...]:
    """What is to be said of the tools.

    `durable`: the journal outlives the process. `shared`: so do the keys, which every process sees.

    Raises:
        ConfigError: what may not be, in this profile and on these stores.

    """
    facts = {name: _facts(agent) for name, agent in agents.items()}
    pausing = {name: _pausing(agent) for name, agent in agents.items()}
    found = check_tools(loaded, facts, durable=durable)
    found += check_policies(loaded, facts, pausing, durable=durable)
    schemas = {n: a.world.schema for n, a in agents.items() if a.world.schema is not None}
    sizes = {name: _size(agent.world) for name, agent in agents.items()}
    found += check_chains(loaded, sizes, schemas)
    return refuse((*found, *check_keys(loaded, facts, shared=shared)))


def specs_of(loaded: Loaded) -> Mapping[str, ModelSpec]:
    """The models, by id, with what the configuration says of all of them."""
    models = {spec.id: spec for spec in loaded.config.models}
    if not loaded.config.telemetry.capture.raw_exchanges:
        return models
    kept = {"capture": Capture(raw_exchanges=True)}
    return {name: spec.model_copy(update=kept) for name, spec in models.items()}


def _size(world: World) -> int:
    """Tokens, estimated, of what stands before the conversation of an agent."""
    return Estimate().input(ModelRequest(world.spec, world.system, (), world.specs, turn=0))


def _workshop(
    mounting: Mounting, models: Mapping[str, Model], artifacts: Artifacts, late: LateOutcomes
) -> Workshop:
    loaded, project = mounting.loaded, mounting.project
    config, agents = loaded.config, {agent.spec.name: agent for agent in loaded.agents}

    def resolve(spec: AgentSpec, kind: Literal["tools", "policies"], index: int) -> object:
        agent, tools = agents[spec.name], kind == "tools"
        entry = spec.tools[index] if tools else spec.policies[index]
        name = str(getattr(entry, "python" if tools else "hook", ""))
        here = (*agent.at, kind, index, "python" if tools else "hook")
        found = None if tools else _provided(name)
        if found is None:
            found = project.resolve(name, agent.source.at(here), here)
        _check_params(agent, index, found)
        return found

    def place(model: str, param: str) -> str:
        n = next((n for n, spec in enumerate(config.models) if spec.id == model), 0)
        here = ("models", n, "params", param)
        return ": ".join(part for part in (str(loaded.source.at(here)), dotted(here)) if part)

    return Workshop(
        specs=specs_of(loaded),
        models=models,
        breakers=breakers_of(config.models, mounting.clock),
        language=config.language,
        tool_timeout=config.execution.tool_timeout,
        parallel=config.execution.parallel_calls,
        budgets=config.budgets,
        artifacts=artifacts,
        remembers=False,
        late=late.take,
        resolve=resolve,
        place=place,
    )


def _provided(name: str) -> object | None:
    """A policy that comes with Loom-IA.

    Raises:
        ExtraMissingError: it needs a package that an extra brings.

    """
    try:
        return provided(name)
    except ModuleNotFoundError as error:
        raise missing_package(Text("Policy"), name, error.name or "") from error


def _check_params(agent: Agent, index: int, found: object) -> None:
    """Check what a policy is given, when it says what it reads.

    Raises:
        ConfigError: every problem, where the configuration has it.

    """
    said = declared(found)
    if said is not None and said.params is not None:
        here = (*agent.at, "policies", index, "params")
        validated(said.params, agent.source, here, value=agent.spec.policies[index].params)


def _facts(agent: Compiled) -> list[ToolFacts]:
    return [
        ToolFacts(
            tool.original,
            tool.plan.side_effects,
            index=tool.index,
            pauses=tool.plan.approval == "always" or tool.plan.on_unknown == "pause",
            by_policy=tool.plan.approval == "policy",
            business_key=tool.key is not None and tool.key.of is not None,
        )
        for tool in agent.tools
    ]


def _pausing(agent: Compiled) -> dict[int, str]:
    """Policies that may pause, by their place in the agent."""
    return {n: hook.name for n, hook in enumerate(agent.policies) if "pause" in hook.decisions}


def _installed() -> Installed:
    return Installed(
        sdks=catalog.installed("models"),
        journals=catalog.installed("storage"),
        artifacts=catalog.installed("artifacts"),
        buses=catalog.installed("bus"),
        idempotency=catalog.installed("idempotency"),
    )


def _artifacts(loaded: Loaded, store: StoreSettings) -> ArtifactsSettings:
    """Files follow the journal: beside it when it is in a folder, else in memory."""
    section = loaded.config.storage.artifacts
    if section is not None:
        backend, values = section.backend, section.settings
    elif store.folder is None:
        backend, values = "memory", {}
    else:
        backend, values = "local", {"path": f"{store.folder}/.artifacts"}
    where = ("storage", "artifacts")
    kind = _found(Text("Files"), backend, catalog.artifacts_settings)
    return validated(kind, loaded.source, where, value=values)


def _keys(loaded: Loaded) -> IdempotencySettings:
    section = loaded.config.storage.idempotency
    kind = _found(Text("Key store"), section.backend, catalog.idempotency_settings)
    return validated(kind, loaded.source, ("storage", "idempotency"), value=section.settings)


def _found(what: Text, name: str, find: Callable[[str], type[S]]) -> type[S]:
    """Settings class of an adapter.

    Raises:
        ExtraMissingError: it needs a package that an extra brings.

    """
    try:
        return find(name)
    except ModuleNotFoundError as error:
        raise missing_package(what, name, error.name or "") from error


def _registered(loaded: Loaded, given: Mapping[str, object]) -> Mapping[str, Model]:
    ids = {spec.id for spec in loaded.config.models}
    return {
        name: value  # pyright: ignore[reportReturnType] reason: seen to stream
        for name, value in given.items()
        if name in ids and hasattr(value, "stream")
    }


def _models(loaded: Loaded, replaced: Mapping[str, Model]) -> Mapping[str, ModelSettings]:
    """Settings of the models that agents use and nobody replaced."""
    mains = [agent.spec.main for agent in loaded.agents]
    used = {name for main in mains for name in (main.model, *main.fallbacks)} - set(replaced)
    return {
        spec.id: validated(
            _found(Text("Model"), spec.sdk, catalog.model_settings),
            loaded.source,
            ("models", n, "params"),
            value=spec.params,
        )
        for n, spec in enumerate(loaded.config.models)
        if spec.id in used
    }


def _sources(loaded: Loaded) -> Mapping[str, SourceSettings]:
    """Settings of the servers of tools that agents use."""
    entries = [entry for agent in loaded.agents for entry in agent.spec.tools]
    used = {entry.mcp for entry in entries if isinstance(entry, McpTools)}
    if not used:
        return {}
    settings = _found(Text("MCP"), "mcp", catalog.source_settings)()
    return dict.fromkeys(sorted(used), settings)
