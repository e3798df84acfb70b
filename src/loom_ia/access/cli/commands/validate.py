"""`loom validate`: check the configuration and mount every agent."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING

from loom_ia.access.cli.session import loom_of, show, wait
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from loom_ia.runtime.loom import Loom

HELP = Text("check the configuration and mount the agents")


def configure(parser: ArgumentParser) -> None:
    """Nothing but the global options."""
    del parser


def run(arguments: Namespace) -> int:
    """Print what was understood; errors are raised."""
    wait(_validate(loom_of(arguments), arguments))
    return 0


async def _validate(loom: Loom, arguments: Namespace) -> None:
    async with loom:
        _heading(loom, arguments)
        agents = loom.agents.values()
        show("")
        for agent in agents:
            params = {"name": agent.name, "model": agent.model, "count": len(agent.tools)}
            show(Text("  {name}: model {model}, {count} Python tool(s)", params))
        show("")
        show(Text("{count} agent(s) mounted without error.", {"count": len(agents)}))


def _heading(loom: Loom, arguments: Namespace) -> None:
    config, agents = loom.config, loom.agents.values()
    tools = dict.fromkeys(name for agent in agents for name in agent.tools)
    undeclared = dict.fromkeys(name for agent in agents for name in agent.undeclared)
    storage = config.storage.events
    place = storage.settings.get("path")
    where = f"{storage.backend} ({place})" if place else storage.backend
    show(Text("Config     : {value}", {"value": arguments.config}))
    show(Text("Profile    : {value}", {"value": loom.loaded.profile.summary()}))
    show(Text("Models     : {value}", {"value": _listed(spec.id for spec in config.models)}))
    show(Text("Agents     : {value}", {"value": _listed(agent.name for agent in agents)}))
    show(Text("Tools      : {value}", {"value": _listed(tools)}))
    show(Text("Storage    : {value}", {"value": where}))
    if undeclared:
        value = _listed(undeclared)
        show(
            Text(
                "Undeclared : {value} (side_effects: none, reversible or irreversible)",
                {"value": value},
            )
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or str(Text("none"))
