"""The tools that only an open connection tells: opened for each drive, told in its journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from loom_ia.agents.compile import Compiled, names_at, saved
from loom_ia.agents.spec import McpTools
from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.events import (
    Payload,
    RunFailed,
    SourceChanged,
    SourceOpened,
    SourceUnreachable,
)
from loom_ia.core.names import safe_name
from loom_ia.core.plan import ToolPlan
from loom_ia.core.ports import (
    Artifacts,
    Holder,
    Offer,
    Offering,
    SourceUnreachableError,
    Tool,
    ToolSource,
)
from loom_ia.core.sources import McpServer, ToolRules
from loom_ia.core.wording import Language
from loom_ia.engine.world import Scene, World
from loom_ia.tools.sourced import SourcedTool

SEPARATOR = "__"


class SourceRequiredError(LoomError):
    """A server without which the agent may not run does not answer."""

    kind = Kind.UNAVAILABLE
    template = (
        "MCP server {source} is required and cannot be reached: {reason}; "
        "start it, then «loom resume {run_id}»"
    )


Found = Offering | SourceUnreachableError


@dataclass(frozen=True, slots=True)
class SourceView:
    """A server of tools as people see it."""

    name: str
    transport: str
    scope: str
    protocol: str = ""
    server: str = ""
    """Name and version that it gives itself."""
    digest: str = ""
    tools: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    problem: str = ""
    """Why it cannot be reached; empty when it answered."""


class Equipment:
    """The sources of a configuration, and what agents take of them."""

    def __init__(
        self,
        sources: Mapping[str, ToolSource],
        servers: Mapping[str, McpServer],
        artifacts: Artifacts,
        language: Language,
    ) -> None:
        self._sources, self._servers = sources, servers
        self._artifacts = artifacts
        self._language: Language = language

    def of(self, agent: Compiled) -> Callable[[Scene], AbstractAsyncContextManager[None]]:
        """What equips a scene of this agent."""
        return partial(self._equipped, agent)

    @asynccontextmanager
    async def _equipped(self, agent: Compiled, scene: Scene) -> AsyncGenerator[None]:
        """Open what the agent uses, together; what does not answer is told and done without."""
        holder = Holder(scene.ref.tenant_id, scene.ref.run_id)
        names = list(dict.fromkeys(entry.mcp for entry in agent.sources))
        async with AsyncExitStack() as stack:
            entered = [self._entered(stack, name, holder) for name in names]
            found = dict(zip(names, await asyncio.gather(*entered), strict=True))
            scene.world = self._world(scene.world, agent, found)
            scene.opening = tuple(_facts(agent, found, scene.ref.run_id))
            scene.notices = partial(_notices, found)
            yield

    async def _entered(self, stack: AsyncExitStack, name: str, holder: Holder) -> Found:
        try:
            return await stack.enter_async_context(self._sources[name].open(holder))
        except SourceUnreachableError as error:
            return error

    def _world(self, world: World, agent: Compiled, found: Mapping[str, Found]) -> World:
        """The world of the agent with the tools of what answered."""
        tools: dict[str, Tool] = dict(world.tools)
        plans: dict[str, ToolPlan] = dict(world.plan.tools)
        timeouts = dict(world.timeouts)
        save, checks = partial(saved, self._artifacts), names_at(agent.policies, "after_tool")
        for entry, offer in _taken(agent.sources, found):
            name = safe_name(f"{entry.prefix}{SEPARATOR}{offer.name}")
            rules = self._servers[entry.mcp].rules(offer.name)
            tools.setdefault(name, SourcedTool(offer, name, self._language, save))
            plans.setdefault(name, replace(_plan(offer, rules), checks=checks))
            if rules.timeout is not None:
                timeouts.setdefault(name, rules.timeout)
        return replace(
            world,
            tools=tools,
            specs=tuple(tool.spec for tool in tools.values()),
            plan=replace(world.plan, tools=plans),
            timeouts=timeouts,
        )

    async def seen(self) -> Sequence[SourceView]:
        """Every source that agents use, asked now."""
        return await asyncio.gather(*(self._seen(name) for name in self._sources))

    async def _seen(self, name: str) -> SourceView:
        server = self._servers[name]
        view = SourceView(name, server.transport, server.scope)
        try:
            async with self._sources[name].open(Holder("default", "")) as offering:
                return replace(
                    view,
                    protocol=offering.protocol,
                    server=offering.server,
                    digest=offering.digest,
                    tools=tuple(offer.name for offer in offering.offers),
                    left_out=offering.left_out,
                )
        except SourceUnreachableError as error:
            return replace(view, problem=str(error))


def _taken(
    entries: Sequence[McpTools], found: Mapping[str, Found]
) -> Sequence[tuple[McpTools, Offer]]:
    return [
        (entry, offer)
        for entry in entries
        for offer in _offers(found[entry.mcp])
        if entry.takes(offer.name)
    ]


def _offers(found: Found) -> Sequence[Offer]:
    return found.offers if isinstance(found, Offering) else ()


def _plan(offer: Offer, rules: ToolRules) -> ToolPlan:
    """What may be done with a tool: the configuration's word, else what its server says.

    Once the configuration says what a tool changes, nothing that its server says makes it safer.
    """
    idempotent = rules.idempotent
    if idempotent is None:
        idempotent = offer.idempotent and rules.side_effects is None
    return ToolPlan(
        side_effects=rules.side_effects or offer.side_effects,
        idempotent=idempotent,
        approval=rules.approval or "never",
        on_unknown=rules.on_unknown or "error",
        definition=offer.definition,
    )


def _facts(agent: Compiled, found: Mapping[str, Found], run_id: str) -> Sequence[Payload]:
    facts: list[Payload] = []
    for name, one in found.items():
        entries = [entry for entry in agent.sources if entry.mcp == name]
        if isinstance(one, Offering):
            facts.append(_opened(name, one, entries))
            continue
        required = any(entry.required for entry in entries)
        facts.append(SourceUnreachable(source=name, reason=str(one), required=required))
    for fact in facts:
        if isinstance(fact, SourceUnreachable) and fact.required:
            params: dict[str, object] = {
                "source": fact.source,
                "reason": fact.reason,
                "run_id": run_id,
            }
            failed = RunFailed(code=SourceRequiredError.code, params=params, resumable=True)
            return [*facts, failed]
    return facts


def _opened(name: str, offering: Offering, entries: Sequence[McpTools]) -> SourceOpened:
    there = [offer.name for offer in offering.offers]
    asked = {tool for entry in entries for tool in entry.include or ()}
    absent = dict.fromkeys(sorted(asked - {*there, *offering.left_out}), "absent")
    return SourceOpened(
        source=name,
        protocol=offering.protocol,
        era=offering.era,
        server=offering.server,
        digest=offering.digest,
        tools=tuple(tool for tool in there if any(entry.takes(tool) for entry in entries)),
        left_out={**offering.left_out, **absent},
    )


def _notices(found: Mapping[str, Found]) -> Sequence[Payload]:
    return [
        SourceChanged(
            source=name,
            digest=change.digest,
            added=change.added,
            removed=change.removed,
            changed=change.changed,
        )
        for name, one in found.items()
        if isinstance(one, Offering)
        for change in one.changes()
    ]
