"""What servers of tools must be beyond their form: one rule, one function."""

from __future__ import annotations

from collections.abc import Iterator

from loom_ia.agents.spec import McpTools
from loom_ia.config.errors import Issue
from loom_ia.config.loaded import Agent, Loaded
from loom_ia.config.problems import unknown
from loom_ia.core.sources import McpServer
from loom_ia.core.text import Text

_OWN = {"stdio": ("command", "args", "env", "env_from"), "http": ("url", "headers", "headers_env")}


def server_names_differ(loaded: Loaded) -> Iterator[Issue]:
    """Two servers have one name."""
    first: dict[str, int] = {}
    for index, server in enumerate(loaded.config.mcp_servers):
        if (known := first.setdefault(server.name, index)) != index:
            problem = Text(
                "MCP server '{name}' is already declared (mcp_servers[{first}]); "
                "give it another name",
                {"name": server.name, "first": known},
            )
            yield loaded.issue(("mcp_servers", index, "name"), problem)


def servers_say_how_they_are_reached(loaded: Loaded) -> Iterator[Issue]:
    """A key belongs to the other transport, or the one that is needed is not there."""
    for index, server in enumerate(loaded.config.mcp_servers):
        here = ("mcp_servers", index)
        needed = _OWN[server.transport][0]
        values: dict[str, object] = {"transport": server.transport, "key": needed}
        if getattr(server, needed) is None:
            problem = Text("transport '{transport}' needs '{key}'; write it", values)
            yield loaded.issue(here, problem)
        for key in _strange(server):
            problem = Text(
                "'{key}' means nothing to transport '{transport}'; remove it",
                {**values, "key": key},
            )
            yield loaded.issue((*here, key), problem)


def _strange(server: McpServer) -> Iterator[str]:
    other = "http" if server.transport == "stdio" else "stdio"
    return (key for key in _OWN[other] if getattr(server, key))


def servers_are_declared(loaded: Loaded) -> Iterator[Issue]:
    """An agent names a server that nobody declares."""
    known = [server.name for server in loaded.config.mcp_servers]
    for agent, index, entry in _entries(loaded):
        if entry.mcp not in known:
            text = unknown(Text("MCP server"), entry.mcp, known)
            yield agent.issue(("tools", index, "mcp"), text)


def prefixes_differ(loaded: Loaded) -> Iterator[Issue]:
    """Two entries of an agent would give one prefix to their tools."""
    first: dict[tuple[str, str], int] = {}
    for agent, index, entry in _entries(loaded):
        known = first.setdefault((agent.spec.name, entry.prefix), index)
        if known != index:
            problem = Text(
                "the tools of tools[{first}] and tools[{index}] have the same prefix '{prefix}'; "
                "give one of them an 'alias'",
                {"first": known, "index": index, "prefix": entry.prefix},
            )
            yield agent.issue(("tools", index, "mcp"), problem)


def servers_do_not_pause_in_memory(loaded: Loaded) -> Iterator[Issue]:
    """A tool of a server waits for a human, and the journal would not outlive the process."""
    backend = loaded.config.storage.events.backend
    if backend != "memory" or loaded.profile.name == "dev":
        return
    pausing = {server.name: _pausing(server) for server in loaded.config.mcp_servers}
    for agent, index, entry in _entries(loaded):
        for tool in pausing.get(entry.mcp, ()):
            name = f"{entry.prefix}__{tool}"
            problem = Text(
                "agent '{agent}' may pause on {what}, and the journal '{backend}' is not "
                "durable; choose a durable journal (storage.events), or the profile dev",
                {
                    "agent": agent.spec.name,
                    "what": Text("tool '{name}'", {"name": name}),
                    "backend": backend,
                },
            )
            yield agent.issue(("tools", index), problem)


def _pausing(server: McpServer) -> list[str]:
    return [
        name
        for name, rules in server.tools.items()
        if rules.approval == "always" or rules.on_unknown == "pause"
    ]


def _entries(loaded: Loaded) -> Iterator[tuple[Agent, int, McpTools]]:
    for agent in loaded.agents:
        for index, entry in enumerate(agent.spec.tools):
            if isinstance(entry, McpTools):
                yield agent, index, entry


SERVER_RULES = (
    server_names_differ,
    servers_say_how_they_are_reached,
    servers_are_declared,
    prefixes_differ,
    servers_do_not_pause_in_memory,
)
