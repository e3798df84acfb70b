"""A configuration once read: models, where each value stands, the prompts, the active profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loom_ia.agents.spec import AgentSpec
from loom_ia.config.errors import Issue, Loc
from loom_ia.config.model import LoomConfig
from loom_ia.config.profiles import NO_PROFILE, Profile
from loom_ia.config.source import Source
from loom_ia.core.templates import EMPTY, Template
from loom_ia.core.text import Text


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent with its prompt, and where it is described."""

    spec: AgentSpec
    source: Source
    at: Loc = ()
    """Location of the agent in its document."""
    prompt: Template = EMPTY

    def issue(self, loc: Loc, text: Text) -> Issue:
        """Issue at a location inside the agent."""
        here = (*self.at, *loc)
        return Issue(self.source.at(here), text, here)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that passed every check that needs nothing installed."""

    config: LoomConfig
    """With the active profile; `config.agents` holds only those written in the root."""
    source: Source
    root: Path
    """Folder that relative paths start from."""
    profile: Profile = NO_PROFILE
    agents: tuple[Agent, ...] = ()
    """Every agent, those of the root first, then one a file, by file name."""
    files: tuple[Path, ...] = ()
    """Files that were read: what a reload watches."""

    def issue(self, loc: Loc, text: Text) -> Issue:
        """Issue at a location of the root document."""
        return Issue(self.source.at(loc), text, loc)

    @property
    def specs(self) -> Mapping[str, AgentSpec]:
        """Agents by name."""
        return {agent.spec.name: agent.spec for agent in self.agents}

    @property
    def prompts(self) -> Mapping[str, Template]:
        """System prompt of each agent; empty where it has none."""
        return {agent.spec.name: agent.prompt for agent in self.agents}
