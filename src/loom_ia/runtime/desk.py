"""What the doors ask of an open Loom, in the words and types of their callers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Literal

from loom_ia.core.events import Event, Principal
from loom_ia.core.projections.view import RunResult, RunView, result, view
from loom_ia.core.text import Text
from loom_ia.runtime.decisions import Decision
from loom_ia.runtime.errors import InvalidRequestError, SessionNotFoundError
from loom_ia.runtime.requests import (
    Channel,
    DecisionOptions,
    RunOptions,
    SubmitOptions,
    requested,
    streamed,
)

if TYPE_CHECKING:
    from loom_ia.engine.world import Shown
    from loom_ia.runtime.host import Host


class Desk:
    """Takes what callers give, and gives back what they may see."""

    def __init__(self, host: Host) -> None:
        self._host, self._runs = host, host.runs

    async def run(self, agent: str, message: str, options: RunOptions) -> RunResult:
        """See `Loom.run`."""
        approver = options.get("approver")
        given = approver is not None
        request = await requested(self._host, agent, message, options, approver=given)
        return result(await self._runs.run(request, approver))

    async def submit(self, agent: str, message: str, options: SubmitOptions) -> RunView:
        """See `Loom.submit`.

        Raises:
            InvalidRequestError: an inline approver is given; nobody would be there to ask it.

        """
        if "approver" in options:
            raise InvalidRequestError(what="approver", expected=Text("run()"), given="submit()")
        return view(await self._runs.submit(await requested(self._host, agent, message, options)))

    def stream(self, agent: str, message: str, options: RunOptions) -> AsyncGenerator[Shown]:
        """See `Loom.stream`."""
        return streamed(self._host, agent, message, options)

    async def result(self, tenant: str, run_id: str) -> RunResult:
        """See `Loom.result`."""
        return result(await self._runs.read(tenant, run_id))

    async def state(self, tenant: str, run_id: str) -> RunView:
        """See `Loom.state`."""
        return view(await self._runs.read(tenant, run_id))

    async def events(self, tenant: str, run_id: str, after: int) -> Sequence[Event]:
        """See `Loom.events`."""
        return await self._runs.events(await self._runs.locate(tenant, run_id), after=after)

    async def resume(
        self, tenant: str, run_id: str, by: tuple[str, Channel], *, now: bool
    ) -> RunResult:
        """See `Loom.resume`."""
        ref = await self._runs.locate(tenant, run_id)
        return result(await self._runs.resume(ref, _principal(by), now=now))

    async def decide(
        self,
        run_id: str,
        verdict: Literal["approve", "reject"],
        by: str,
        options: DecisionOptions,
    ) -> RunResult:
        """See `Loom.approve` and `Loom.reject`."""
        ref = await self._runs.locate(options.get("tenant", "default"), run_id)
        scopes = options.get("scopes")
        decision = Decision(
            verdict,
            _principal((by, options.get("channel", "python"))),
            call=options.get("call"),
            arguments=options.get("arguments"),
            reason=options.get("reason", ""),
            on_behalf_of=options.get("on_behalf_of", ""),
            happened=options.get("happened"),
            scopes=None if scopes is None else frozenset(scopes),
        )
        return result(await self._runs.decide(ref, decision))

    async def cancel(
        self, tenant: str, run_id: str, by: tuple[str, Channel], reason: str
    ) -> RunView:
        """See `Loom.cancel`."""
        ref = await self._runs.locate(tenant, run_id)
        return view(await self._runs.cancel(ref, _principal(by), reason))

    async def repair(self, tenant: str, session_id: str) -> Sequence[int]:
        """See `Loom.repair`."""
        journal = self._host.store.journal
        lines = await journal.repair(tenant, session_id)
        self._host.histories.forget(tenant, session_id)
        if not lines and not (await journal.session(tenant, session_id)).events:
            raise SessionNotFoundError(session_id=session_id)
        return lines


def _principal(by: tuple[str, Channel]) -> Principal:
    name, channel = by
    return Principal.make(name, channel)
