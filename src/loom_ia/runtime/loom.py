"""The facade: one object, every door. No logic here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

if TYPE_CHECKING:
    from datetime import date

    from loom_ia.agents.compile import AgentView
    from loom_ia.config import LoomConfig
    from loom_ia.config.errors import Issue
    from loom_ia.config.loaded import Loaded
    from loom_ia.core.errors import LoomError
    from loom_ia.core.events import Event
    from loom_ia.core.projections.report import Period, Report
    from loom_ia.core.projections.request import SentRequest
    from loom_ia.core.projections.trace import TraceRun
    from loom_ia.core.projections.view import (
        ErasedSession,
        EventPage,
        RunPage,
        RunResult,
        RunView,
        SessionDetail,
        SessionPage,
    )
    from loom_ia.engine.world import Shown
    from loom_ia.runtime.desk import Desk
    from loom_ia.runtime.equipment import SourceView
    from loom_ia.runtime.host import Host
    from loom_ia.runtime.listing import QueryOptions, RunListOptions
    from loom_ia.runtime.requests import Channel, DecisionOptions, RunOptions, SubmitOptions


class Loom:
    """Agents, ready to run, inside `async with`."""

    def __init__(self, config: LoomConfig, *, root: str | Path | None = None) -> None:
        """Loom of a configuration built in Python; relative paths start from `root`."""
        from loom_ia.config.load import from_python  # noqa: PLC0415

        base = Path(root) if root is not None else Path()
        self._set(from_python(config, root=base, environ=os.environ))

    def _set(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self._given: dict[str, object] = {}
        self._stack = AsyncExitStack()
        self._host: Host | None = None

    @classmethod
    def from_config(cls, path: str | Path = "loom.yaml", *, profile: str | None = None) -> Self:
        """Loom of a configuration file.

        Raises:
            ConfigError: every problem found, each with file, line and column.

        """
        from loom_ia.config.load import load  # noqa: PLC0415

        loom = cls.__new__(cls)
        loom._set(load(path, profile, os.environ))
        return loom

    @property
    def config(self) -> LoomConfig:
        """The configuration, with its active profile."""
        return self.loaded.config

    @property
    def entered(self) -> bool:
        """True inside `async with`."""
        return self._host is not None

    @property
    def agents(self) -> Mapping[str, AgentView]:
        """The agents, once entered."""
        return {name: compiled.view for name, compiled in self._open.compiled.items()}

    @property
    def warnings(self) -> tuple[Issue, ...]:
        """What deserves a look in the configuration, once entered."""
        return self._open.warnings

    async def sources(self) -> Sequence[SourceView]:
        """The servers of tools that agents use, asked now what they offer."""
        return await self._open.equipment.seen()

    def register(self, name: str, value: object) -> None:
        """Make a Python object known by a name: a tool, or a model that replaces one's adapter."""
        self._given[name] = value

    async def __aenter__(self) -> Self:
        """Open the store, import the project, mount every agent."""
        try:
            open_host = (await asyncio.to_thread(import_module, "loom_ia.runtime.host")).open_host
            self._host = await open_host(self.loaded, self._given, self._stack)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close what was opened. Runs stop at the end of their step, or after ten seconds; those
        that are queued stay in their journals. `recover` goes on with them.
        """
        self._host = None
        await self._stack.aclose()

    @property
    def _open(self) -> Host:
        if self._host is None:
            from loom_ia.runtime.errors import NotEnteredError  # noqa: PLC0415

            raise NotEnteredError
        return self._host

    @property
    def _desk(self) -> Desk:
        return self._open.desk

    async def run(self, agent: str, message: str, **options: Unpack[RunOptions]) -> RunResult:
        """Run an agent until it answers, fails, or waits for a human."""
        return await self._desk.run(agent, message, options)

    def stream(
        self, agent: str, message: str, **options: Unpack[RunOptions]
    ) -> AsyncIterator[Shown]:
        """Run an agent and give its text and events as they come."""
        return self._desk.stream(agent, message, options)

    async def submit(self, agent: str, message: str, **options: Unpack[SubmitOptions]) -> RunView:
        """Queue a run: it is in the journal, on the disk, when this returns, and is driven here as
        soon as there is room (`execution.parallel_runs`), or elsewhere if this process dies.
        """
        return await self._desk.submit(agent, message, options)

    async def recover(self) -> Sequence[str]:
        """Queue the runs that nobody drives and that have something to do; their ids.

        Those that wait for a human are left to wait.
        """
        return await self._open.recovery.recover()

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Inside `async with`, this process takes up what others left: at once, then whenever a
        lease, or the time given to decide, is over.
        """
        return self._open.recovery.serving()

    async def drain(self, *, within: float | None = None) -> bool:
        """Wait until no run is queued or driven in the background here; False when it takes more
        seconds than `within`.
        """
        return await self._open.jobs.drain(within)

    @property
    def parked(self) -> Mapping[str, LoomError]:
        """Runs that could not be driven in the background, and why; each is tried again later."""
        return self._open.jobs.parked

    async def result(self, run_id: str, *, tenant: str = "default") -> RunResult:
        """What a run produced so far."""
        return await self._desk.result(tenant, run_id)

    async def state(self, run_id: str, *, tenant: str = "default") -> RunView:
        """Where a run is."""
        return await self._desk.state(tenant, run_id)

    async def events(
        self, run_id: str, *, tenant: str = "default", after: int = 0
    ) -> Sequence[Event]:
        """Events of a run behind a position."""
        return await self._desk.events(tenant, run_id, after)

    def follow(
        self,
        run_id: str | None = None,
        *,
        session: str | None = None,
        tenant: str = "default",
        after: int = 0,
    ) -> AsyncGenerator[Event]:
        """The events of a run behind a position, as they come, whoever drives it, until it ends: a
        pause is waited for. Those of a session, until the caller stops. Each one once, in order.
        """
        return self._open.reader.follow(tenant, run_id, session, after)

    def watch(
        self, run_id: str, *, tenant: str = "default", after: int = 0
    ) -> AsyncGenerator[Shown | None]:
        """What `follow` gives of a run, and between the events the text that comes, as far as this
        process drives it; None whenever nothing came for half a second.
        """
        return self._open.reader.watch(tenant, run_id, after)

    async def runs(self, **options: Unpack[RunListOptions]) -> RunPage:
        """Root runs of a tenant, newest first; `after` is the `next` of the page before."""
        return await self._open.reader.runs(options)

    async def query(self, **options: Unpack[QueryOptions]) -> EventPage:
        """Events of a tenant, oldest first, chosen by what their envelopes say."""
        return await self._open.reader.query(options)

    async def trace(self, run_id: str, *, tenant: str = "default") -> TraceRun:
        """The tree of a run: steps, calls of models and tools, durations, statuses, costs."""
        return await self._open.reader.trace(tenant, run_id)

    async def request(self, run_id: str, number: int, *, tenant: str = "default") -> SentRequest:
        """What the model was sent at its n-th call, attempts included: prompt, tools, messages."""
        return await self._open.reader.request(tenant, run_id, number)

    async def report(
        self,
        run_id: str | None = None,
        *,
        session: str | None = None,
        tenant: str = "default",
        period: Period | None = None,
        day: date | None = None,
    ) -> Report:
        """Consumption of a run, of a session, or of a tenant in a period (see `consumption`)."""
        return await self._open.reader.report(tenant, run_id, session, period, day)

    async def consumption(
        self, tenant: str = "default", period: Period = "day", *, day: date | None = None
    ) -> Report:
        """What a tenant consumed in a calendar day or month, in UTC: the one that holds `day`, else
        the present one. A call counts where its answer was recorded.
        """
        return await self._open.reader.consumption(tenant, period, day)

    async def resume(
        self,
        run_id: str,
        *,
        by: str = "python",
        channel: Channel = "python",
        tenant: str = "default",
        now: bool = False,
    ) -> RunResult:
        """Go on with a run where its journal stopped; `now` takes it from a living driver."""
        return await self._desk.resume(tenant, run_id, (by, channel), now=now)

    async def approve(
        self, run_id: str, *, by: str, **options: Unpack[DecisionOptions]
    ) -> RunResult:
        """Let one waiting call leave, or all of them, then go on with the run."""
        return await self._desk.decide(run_id, "approve", by, options)

    async def reject(
        self, run_id: str, *, by: str, **options: Unpack[DecisionOptions]
    ) -> RunResult:
        """Refuse one waiting call, or all of them, then go on with the run."""
        return await self._desk.decide(run_id, "reject", by, options)

    async def cancel(
        self,
        run_id: str,
        *,
        by: str = "python",
        channel: Channel = "python",
        tenant: str = "default",
        reason: str = "",
    ) -> RunView:
        """Stop a run, wherever it is driven; bounded, and the same when asked twice."""
        return await self._desk.cancel(tenant, run_id, (by, channel), reason)

    async def sessions(
        self, *, tenant: str = "default", after: str = "", limit: int = 50
    ) -> SessionPage:
        """Sessions, newest first; `after` is the `next` of the page before."""
        return await self._open.sessions.listed(tenant, after, limit)

    async def session(
        self, session_id: str, *, tenant: str = "default", after: str = "", limit: int = 50
    ) -> SessionDetail:
        """A session and a page of its runs, newest first."""
        return await self._open.sessions.shown(tenant, session_id, after, limit)

    def export_session(self, session_id: str, *, tenant: str = "default") -> AsyncGenerator[str]:
        """A whole session as lines of JSON: its events, then the contents that they name."""
        return self._open.sessions.export(tenant, session_id)

    async def delete_session(
        self, session_id: str, *, by: str = "python", tenant: str = "default"
    ) -> ErasedSession:
        """Erase a session, its files and what it alone names; the same when asked again.

        Runs that are driven, here or elsewhere, are stopped first, and taken from a driver that
        does not answer; those that wait are erased as they are.
        """
        return await self._open.sessions.delete(tenant, session_id, by)

    async def repair(self, session_id: str, *, tenant: str = "default") -> Sequence[int]:
        """Set the damaged lines of a session aside; their numbers."""
        return await self._desk.repair(tenant, session_id)
