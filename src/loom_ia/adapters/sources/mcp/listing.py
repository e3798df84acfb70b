"""The tools that a server lists: every page, told apart by a digest of all that it says of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mcp.client.session import ClientSession
from mcp.types import PaginatedRequestParams, Tool

from loom_ia.core.ports import SideEffects

PAGES = 1000
LONGEST_NAME = 128


@dataclass(frozen=True, slots=True)
class Described:
    """A tool as its server describes it."""

    tool: Tool
    digest: str
    """Of everything but what only changes how it looks."""

    @property
    def side_effects(self) -> SideEffects:
        """What it says it changes outside; one that says nothing may destroy."""
        hints = self.tool.annotations
        if hints is not None and hints.read_only_hint:
            return "none"
        if hints is not None and hints.destructive_hint is False:
            return "reversible"
        return "irreversible"

    @property
    def idempotent(self) -> bool:
        """True when it says that it may be called again without harm."""
        return self.tool.annotations is not None and bool(self.tool.annotations.idempotent_hint)


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server at one moment, by name."""

    tools: Mapping[str, Described]
    digest: str
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools that are not taken, each with the reason; `*`: of those that are not named."""


NOTHING = Listing({}, "")


async def listed(session: ClientSession, limit: int) -> Listing:
    """All the pages, or nothing: half a list is not used.

    Raises:
        MCPError: a page failed.

    """
    found: list[Tool] = []
    left_out: dict[str, str] = {}
    cursor, seen = None, set[str]()
    for _ in range(PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
        if cursor in seen or len(found) > limit:
            left_out["*"] = "cursor" if cursor in seen else "limit"
            break
        seen.add(cursor)
    else:
        left_out["*"] = "limit"
    if len(found) > limit:
        left_out["*"] = "limit"
    return _sorted_out(found[:limit], left_out)


def _sorted_out(found: Sequence[Tool], left_out: dict[str, str]) -> Listing:
    tools: dict[str, Described] = {}
    for tool in found:
        described = Described(tool, _digest(tool))
        known = tools.setdefault(tool.name, described)
        if not tool.name or len(tool.name) > LONGEST_NAME:
            left_out[tool.name[:LONGEST_NAME]] = "name"
        elif known.digest != described.digest:
            left_out[tool.name] = "duplicate"
    for name in left_out:
        tools.pop(name, None)
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(tools):
        total.update(f"{name} {tools[name].digest}\n".encode())
    return Listing(tools, total.hexdigest(), left_out)


def _digest(tool: Tool) -> str:
    said = tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"icons", "meta"})
    text = json.dumps(said, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
