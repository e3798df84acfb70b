"""What one open Loom holds: its store, its models, its agents, its drives."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from loom_ia.agents.compile import Compiled, Workshop, compile_agent, declared_name
from loom_ia.config.checks import Installed, ToolFacts, check_installed, check_tools, refuse
from loom_ia.config.imports import Project
from loom_ia.config.problems import validated
from loom_ia.core.ports import Artifacts, Model, RunRef, Store
from loom_ia.engine.world import Ports, World
from loom_ia.runtime import catalog
from loom_ia.runtime.drives import Drives
from loom_ia.runtime.errors import UnknownAgentError, UnknownTenantError
from loom_ia.runtime.late import LateOutcomes
from loom_ia.runtime.runs import Runs

if TYPE_CHECKING:
    from loom_ia.agents.spec import AgentSpec
    from loom_ia.config import LoomConfig
    from loom_ia.config.errors import Issue
    from loom_ia.config.loaded import Loaded

TENANT = "default"
EVENTS = ("storage", "events")


@dataclass(slots=True, eq=False)
class Host:
    """Everything opened by `async with Loom(…)`, closed in reverse order."""

    loaded: Loaded
    ports: Ports
    store: Store
    artifacts: Artifacts
    drives: Drives
    compiled: Mapping[str, Compiled]
    warnings: tuple[Issue, ...] = ()

    @property
    def runs(self) -> Runs:
        """The runs of this host."""
        return Runs(self)

    @property
    def config(self) -> LoomConfig:
        """The configuration, with its active profile."""
        return self.loaded.config

    def agent(self, name: str) -> Compiled:
        """An agent by its name."""
        found = self.compiled.get(name)
        if found is None:
            names = ", ".join(self.compiled) or "-"
            raise UnknownAgentError(agent=name, names=names)
        return found

    def world(self, ref: RunRef, agent: str) -> World:
        """What an agent may touch in one run."""
        if ref.tenant_id != TENANT:
            raise UnknownTenantError(tenant=ref.tenant_id)
        compiled = self.agent(agent)
        if not compiled.prompt.variables():
            return compiled.world
        values: dict[str, object] = {
            "agent": {"name": agent},
            "tenant": {"id": ref.tenant_id},
            "session": {"id": ref.session_id},
            "run": {"id": ref.run_id},
        }
        return replace(compiled.world, system=compiled.prompt.render(values))


async def open_host(loaded: Loaded, given: Mapping[str, object], stack: AsyncExitStack) -> Host:
    """Open what a configuration describes.

    Raises:
        ConfigError: what it names is not there, or may not be used together.
        StoreUnavailableError: the store cannot be opened.

    """
    refuse(check_installed(loaded, _installed()))
    environment = catalog.environment(loaded.root, dict(os.environ))
    events = loaded.config.storage.events
    settings = validated(
        catalog.store_settings(events.backend), loaded.source, EVENTS, value=events.settings
    )
    store = await stack.enter_async_context(settings.open(environment))
    artifacts = await _artifacts(loaded, store, environment, stack)
    clock, ids = catalog.system()
    lease = loaded.config.execution.lease
    ports = Ports(
        store.journal, store.leases, store.blobs, clock, ids, holder=_holder(), lease=lease
    )
    models = await _models(loaded, given, environment, stack)
    project = Project(loaded, declared_name)
    stack.callback(project.close)
    for name, value in given.items():
        project.register(name, value)
    await asyncio.to_thread(project.import_all)
    workshop = _workshop(loaded, models, project, artifacts, LateOutcomes(ports))
    compiled = {a.spec.name: compile_agent(a.spec, a.prompt, workshop) for a in loaded.agents}
    facts = {name: _facts(agent) for name, agent in compiled.items()}
    warnings = refuse(check_tools(loaded, facts, durable=store.journal.durable))
    drives = Drives(ports)
    stack.push_async_callback(drives.close)
    return Host(loaded, ports, store, artifacts, drives, compiled, warnings)


def _workshop(
    loaded: Loaded,
    models: Mapping[str, Model],
    project: Project,
    artifacts: Artifacts,
    late: LateOutcomes,
) -> Workshop:
    config, agents = loaded.config, {agent.spec.name: agent for agent in loaded.agents}

    def resolve(spec: AgentSpec, index: int) -> object:
        agent = agents[spec.name]
        here = (*agent.at, "tools", index, "python")
        return project.resolve(spec.tools[index].python, agent.source.at(here), here)

    return Workshop(
        specs={spec.id: spec for spec in config.models},
        models=models,
        language=config.language,
        tool_timeout=config.execution.tool_timeout,
        parallel=config.execution.parallel_calls,
        artifacts=artifacts,
        late=late.take,
        resolve=resolve,
    )


def _facts(agent: Compiled) -> list[ToolFacts]:
    return [
        ToolFacts(
            tool.original,
            tool.plan.side_effects,
            pauses=tool.plan.approval != "never" or tool.plan.on_unknown == "pause",
        )
        for tool in agent.tools
    ]


def _installed() -> Installed:
    return Installed(
        sdks=catalog.installed("models"),
        journals=catalog.installed("storage"),
        artifacts=catalog.installed("artifacts"),
    )


def _holder() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


async def _artifacts(
    loaded: Loaded, store: Store, environment: object, stack: AsyncExitStack
) -> Artifacts:
    section = loaded.config.storage.artifacts
    if section is not None:
        backend, values = section.backend, section.settings
    elif store.journal.durable:
        folder = loaded.config.storage.events.settings.get("path", "data")
        backend, values = "local", {"path": f"{folder}/.artifacts"}
    else:
        backend, values = "memory", {}
    where = ("storage", "artifacts")
    kind = catalog.artifacts_settings(backend)
    settings = validated(kind, loaded.source, where, value=values)
    return await stack.enter_async_context(settings.open(environment))


async def _models(
    loaded: Loaded, given: Mapping[str, object], environment: object, stack: AsyncExitStack
) -> Mapping[str, Model]:
    """Models by id; one registered under the id of a model replaces its adapter."""
    used = {agent.spec.main.model for agent in loaded.agents}
    models: dict[str, Model] = {}
    for n, spec in enumerate(loaded.config.models):
        own = given.get(spec.id)
        if own is not None and hasattr(own, "stream"):
            models[spec.id] = own  # pyright: ignore[reportArgumentType] reason: seen to stream
        elif spec.id in used:
            where = ("models", n, "params")
            kind = catalog.model_settings(spec.sdk)
            settings = validated(kind, loaded.source, where, value=spec.params)
            models[spec.id] = await stack.enter_async_context(settings.open(environment))
    return models
