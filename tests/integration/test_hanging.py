"""Synchronous tools that hang take nothing from the other runs of their process."""

import asyncio
import threading
from pathlib import Path

from loom_ia.access import Loom
from loom_ia.adapters.env import Env
from loom_ia.adapters.storage.sqlite import Settings
from loom_ia.config import LoomConfig
from loom_ia.core.ports import RunFilter
from loom_ia.testing import ScriptedModel
from loom_ia.tools import tool

HANGING = 12
DEADLINE = 30.0


def _config(path: Path) -> LoomConfig:
    model = {"id": "M", "sdk": "fake", "model": "f", "params": {"script": [{"text": "-"}]}}
    agents = [
        {"name": name, "main": {"model": "M", "system": "Tu aides."}, "tools": [{"python": name}]}
        for name in ("pendre", "noter")
    ]
    return LoomConfig.model_validate(
        {
            "version": 1,
            "models": [model],
            "agents": agents,
            "storage": {"events": {"backend": "sqlite", "path": str(path / "loom.db")}},
            "execution": {"lease": 1.0, "tool_timeout": 60.0},
        }
    )


async def test_twelve_hanging_tools_delay_no_write_and_no_renewal(tmp_path: Path) -> None:
    enough, inside = threading.Event(), threading.Semaphore(0)

    @tool(side_effects="none")
    def pendre() -> str:
        """Ne rend pas la main."""
        inside.release()
        enough.wait(DEADLINE)
        return "enfin"

    @tool(side_effects="irreversible")
    def noter() -> str:
        """Note."""
        return "noté"

    loom = await asyncio.to_thread(Loom, _config(tmp_path))
    loom.register("pendre", pendre)
    loom.register("noter", noter)
    asked = [{"tool_calls": [{"name": "pendre"}]}] * HANGING
    loom.register("M", ScriptedModel(*asked, {"tool_calls": [{"name": "noter"}]}, *["fini"] * 20))
    async with loom:
        hanging = [asyncio.ensure_future(loom.run("pendre", "Va")) for _ in range(HANGING)]
        for _ in range(HANGING):
            assert await asyncio.to_thread(inside.acquire, timeout=DEADLINE)
        async with Settings(path=str(tmp_path / "loom.db")).open(Env(tmp_path)) as seen:
            open_runs = RunFilter(ended=False)
            first = {e.run_id: e.lease_until for e in await seen.index.runs("default", open_runs)}
            assert (await loom.run("noter", "Note")).status == "completed"
            async with asyncio.timeout(DEADLINE):
                while True:  # until each lease was renewed
                    entries = list(await seen.index.runs("default", open_runs))
                    if all(first[e.run_id] < e.lease_until for e in entries):
                        break
        assert len(entries) == HANGING
        assert all(entry.epoch == 1 for entry in entries)
        enough.set()
        assert {(await run).status for run in hanging} == {"completed"}
