"""What one open Loom holds: its store, its models, its agents, its drives."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from loom_ia.agents.compile import Compiled
from loom_ia.core.admission import Admission
from loom_ia.core.ports import Artifacts, Bus, Idempotency, Model, RunRef, Store, ToolSource
from loom_ia.engine.world import Ports, World
from loom_ia.runtime.airing import Air
from loom_ia.runtime.desk import Desk
from loom_ia.runtime.drives import Drives
from loom_ia.runtime.equipment import Equipment
from loom_ia.runtime.errors import UnknownAgentError, UnknownTenantError
from loom_ia.runtime.following import Followed
from loom_ia.runtime.jobs import Jobs
from loom_ia.runtime.mounting import Mounting, compiled, prepare, specs_of, tool_warnings
from loom_ia.runtime.reader import Reader
from loom_ia.runtime.recovery import Recovery
from loom_ia.runtime.runs import Runs
from loom_ia.runtime.sessions import Sessions
from loom_ia.sessions import Histories

if TYPE_CHECKING:
    from loom_ia.config import LoomConfig
    from loom_ia.config.errors import Issue
    from loom_ia.config.loaded import Loaded

TENANT = "default"


@dataclass(eq=False)
class Host:
    """Everything opened by `async with Loom(…)`, closed in reverse order."""

    loaded: Loaded
    ports: Ports
    store: Store
    artifacts: Artifacts
    keys: Idempotency
    bus: Bus
    drives: Drives
    compiled: Mapping[str, Compiled]
    equipment: Equipment
    warnings: tuple[Issue, ...] = ()

    @property
    def runs(self) -> Runs:
        """The runs of this host."""
        return Runs(self)

    @cached_property
    def jobs(self) -> Jobs:
        """The runs that nobody here waits for."""
        return Jobs(self.runs.advance, self.ports.clock, self.config.execution.parallel_runs)

    @cached_property
    def recovery(self) -> Recovery:
        """What takes up the runs that were left."""
        return Recovery(self)

    @property
    def tenants(self) -> tuple[str, ...]:
        """The tenants that this process serves."""
        return (TENANT,)

    @cached_property
    def air(self) -> Air:
        """Who sees the text of runs as it comes."""
        return Air()

    @cached_property
    def desk(self) -> Desk:
        """What the doors ask."""
        return Desk(self)

    @cached_property
    def reader(self) -> Reader:
        """What the doors read of runs."""
        return Reader(self)

    @cached_property
    def histories(self) -> Histories:
        """What the next run of each session is told."""
        return Histories(self.store.journal, self.store.snapshots)

    @cached_property
    def sessions(self) -> Sessions:
        """The conversations."""
        return Sessions(self)

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

    def check_tenant(self, tenant_id: str) -> None:
        """Refuse a tenant that nobody declares.

        Raises:
            UnknownTenantError: it is not `default`.

        """
        if tenant_id != TENANT:
            raise UnknownTenantError(tenant=tenant_id)

    def last_world(self, ref: RunRef, agent: str) -> World:
        """What it takes to close a run, even one whose agent is gone."""
        known = agent in self.compiled or not self.compiled
        return self.world(ref, agent if known else next(iter(self.compiled)))

    def admission(self, agent: str) -> Admission | None:
        """What one more run of a tenant must find room in; None when nothing limits it."""
        budget, most = self.agent(agent).world.plan.budget, self.config.quotas.runs_per_minute
        limited = budget.stop and any(c.scope == "tenant" for c in budget.ceilings)
        return Admission(budget, most) if limited or most is not None else None

    def world(self, ref: RunRef, agent: str) -> World:
        """What an agent may touch in one run."""
        self.check_tenant(ref.tenant_id)
        compiled = self.agent(agent)
        world = compiled.world
        if compiled.sources:
            world = replace(world, equip=self.equipment.of(compiled))
        if not compiled.prompt.variables():
            return world
        values: dict[str, object] = {
            "agent": {"name": agent},
            "tenant": {"id": ref.tenant_id},
            "session": {"id": ref.session_id},
            "run": {"id": ref.run_id},
        }
        return replace(world, system=compiled.prompt.render(values))


async def open_host(loaded: Loaded, given: Mapping[str, object], stack: AsyncExitStack) -> Host:
    """Open what a configuration describes. What reads files does it in a thread.

    Raises:
        ConfigError: what it names is not there, or may not be used together.
        StoreUnavailableError: the store cannot be opened.

    """
    mounting = await asyncio.to_thread(prepare, loaded, given)
    stack.callback(mounting.project.close)
    environment = mounting.environment
    store = await stack.enter_async_context(mounting.store.open(environment))
    artifacts = await stack.enter_async_context(mounting.artifacts.open(environment))
    keys = await stack.enter_async_context(mounting.keys.open(environment))
    bus = await stack.enter_async_context(mounting.bus.open(environment))
    models: dict[str, Model] = dict(mounting.given)
    specs = specs_of(loaded)
    for name, settings in mounting.models.items():
        opened = settings.open(environment, specs[name])
        models[name] = await stack.enter_async_context(opened)
    ports = Ports(
        Followed(store.journal, bus),
        store.leases,
        store.blobs,
        mounting.clock,
        mounting.ids,
        holder=mounting.holder,
        lease=loaded.config.execution.lease,
        keys=keys,
        index=store.index,
    )
    agents = await asyncio.to_thread(compiled, mounting, models, artifacts, ports)
    warnings = tool_warnings(loaded, agents, durable=store.journal.durable, shared=keys.shared)
    drives = Drives(ports)
    equipment = await _equipment(mounting, artifacts, stack)
    host = Host(loaded, ports, store, artifacts, keys, bus, drives, agents, equipment, warnings)
    stack.push_async_callback(host.jobs.close)
    stack.push_async_callback(drives.close)
    stack.callback(host.jobs.stop)
    await host.sessions.finish(TENANT)
    return host


async def _equipment(mounting: Mounting, artifacts: Artifacts, stack: AsyncExitStack) -> Equipment:
    """The sources of tools; each one connects when it is needed."""
    config = mounting.loaded.config
    servers = {server.name: server for server in config.mcp_servers}
    sources: dict[str, ToolSource] = {}
    for name, settings in mounting.sources.items():
        opened = settings.open(mounting.environment, servers[name], config.language)
        sources[name] = await stack.enter_async_context(opened)
    return Equipment(sources, servers, artifacts, config.language)
