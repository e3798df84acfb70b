"""`loom validate`: check the configuration and mount every agent."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from loom_ia.access.cli.session import loom_of, printable, show, show_data, wait
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from loom_ia.runtime.equipment import SourceView
    from loom_ia.runtime.loom import Loom

HELP = Text("check the configuration and mount the agents")


def configure(parser: ArgumentParser) -> None:
    """How to say it."""
    about = str(Text("print what was understood as JSON"))
    parser.add_argument("--json", action="store_true", help=about)


def run(arguments: Namespace) -> int:
    """Print what was understood; errors are raised."""
    wait(_validate(loom_of(arguments), arguments))
    return 0


async def _validate(loom: Loom, arguments: Namespace) -> None:
    async with loom:
        if arguments.json:
            show_data(_data(loom, arguments, await loom.sources()))
            return
        sources = await loom.sources()
        _heading(loom, arguments, sources)
        agents = loom.agents.values()
        show("")
        for agent in agents:
            params = {"name": agent.name, "model": agent.model, "count": len(agent.tools)}
            show(Text("  {name}: model {model}, {count} Python tool(s)", params))
        for source in sources:
            _source(source)
        show("")
        for warning in loom.warnings:
            show(Text("To review  : {warning}", {"warning": warning}))
        if loom.warnings:
            show("")
        show(Text("{count} agent(s) mounted without error.", {"count": len(agents)}))


def _source(source: SourceView) -> None:
    """What a server of tools answers now."""
    if source.problem:
        params = {"name": source.name, "problem": printable(source.problem)}
        show(Text("  MCP server {name}: cannot be reached; {problem}", params))
        return
    params = {
        "name": source.name,
        "server": printable(source.server) or "-",
        "protocol": source.protocol,
        "tools": _listed(map(printable, source.tools)),
    }
    show(Text("  MCP server {name}: {server}, protocol {protocol}, tools: {tools}", params))
    for tool, reason in source.left_out.items():
        params = {"name": source.name, "tool": printable(tool), "reason": _REASONS[reason]}
        show(Text("  MCP server {name}: {tool} is left out, {reason}", params))


_REASONS = {
    "withdrawn": Text("its definition changed"),
    "duplicate": Text("it is listed twice, and not in the same words"),
    "limit": Text("the server lists more tools than 'max_tools'"),
    "name": Text("its name is empty or too long"),
    "cursor": Text("the pages of the list go round in circles"),
}


def _heading(loom: Loom, arguments: Namespace, sources: Sequence[SourceView]) -> None:
    config, agents = loom.config, loom.agents.values()
    tools = dict.fromkeys(name for agent in agents for name in agent.tools)
    show(Text("Config     : {value}", {"value": arguments.config}))
    show(Text("Profile    : {value}", {"value": loom.loaded.profile.summary()}))
    show(Text("Models     : {value}", {"value": _listed(spec.id for spec in config.models)}))
    show(Text("Agents     : {value}", {"value": _listed(agent.name for agent in agents)}))
    show(Text("Tools      : {value}", {"value": _listed(tools)}))
    if sources:
        show(Text("MCP servers: {value}", {"value": _listed(source.name for source in sources)}))
    show(Text("Storage    : {value}", {"value": _storage(loom)}))


def _storage(loom: Loom) -> str:
    events = loom.config.storage.events
    place = events.settings.get("path")
    return f"{events.backend} ({place})" if place else events.backend


def _data(loom: Loom, arguments: Namespace, sources: Sequence[SourceView]) -> dict[str, object]:
    from dataclasses import asdict  # noqa: PLC0415

    return {
        "config": arguments.config,
        "profile": loom.loaded.profile.name,
        "models": [spec.id for spec in loom.config.models],
        "agents": [asdict(agent) for agent in loom.agents.values()],
        "mcp_servers": [asdict(source) for source in sources],
        "storage": _storage(loom),
        "warnings": [str(warning) for warning in loom.warnings],
    }


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or str(Text("none"))
