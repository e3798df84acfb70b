"""Runs: started, driven, decided, stopped, read. The doors come in here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from loom_ia.core.errors import (
    RequestExpiredError,
    RunExistsError,
    RunHeldError,
    RunNotFoundError,
    SessionBusyError,
)
from loom_ia.core.events import CallerOptions, Event, Payload, Principal, RunStarted
from loom_ia.core.fold import fold
from loom_ia.core.model import FileBlock, ImageBlock, Message, user
from loom_ia.core.ports import Append, Draft, Fence, Guard, RunRef
from loom_ia.core.projections.view import PendingApproval, pending
from loom_ia.core.state import RunState
from loom_ia.engine.driver import load
from loom_ia.engine.world import GRACE, Scene, Shown, World
from loom_ia.runtime import decisions
from loom_ia.runtime.decisions import Decision, Known
from loom_ia.runtime.drives import LOOK
from loom_ia.runtime.errors import AlreadyDecidedError, KeyUsedError, NotWaitingError

if TYPE_CHECKING:
    from loom_ia.runtime.host import Host

Approver = Callable[[PendingApproval], Awaitable[bool] | bool]
"""Decides a question in the process of the caller; it runs on the event loop."""

HELD = 0.2
"""Seconds between two looks at a run that another process drives."""

_PLAIN = CallerOptions()

Files = tuple[ImageBlock | FileBlock, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """What a door asks for."""

    agent: str
    message: str
    by: Principal
    tenant_id: str = "default"
    session_id: str | None = None
    run_id: str | None = None
    key: str | None = None
    """A run that has this id already, and was asked for the same, is this one."""
    files: Files = ()
    context: Mapping[str, object] = field(default_factory=dict[str, object])
    judges: Literal["auto", "force", "skip"] = "auto"
    approver: bool = False


class Runs:
    """The runs of one open Loom."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def start(self, request: Request, *, sync: bool = False) -> Scene:
        """Write that a run was asked; it is followable from here on.

        Raises:
            RunExistsError, KeyUsedError, SessionBusyError, RunQuotaError, TenantBudgetError:
                nothing was written.

        """
        host = self._host
        host.agent(request.agent)
        run_id = request.run_id or host.ports.ids.new()
        session_id = request.session_id or run_id
        ordinal = 1
        if request.session_id is not None:
            language = host.config.language
            past = await host.histories.now(request.tenant_id, session_id, language)
            ordinal += past.ordinal
        ref = RunRef(request.tenant_id, session_id, run_id, run_id)
        started = _started(request, host.config.language, ordinal)
        admission = host.admission(request.agent)
        if admission is not None and admission.reserve is not None:
            started = started.model_copy(update={"reserve": admission.reserve})
        draft = Draft(host.ports.ids.new(), started)
        guard = None
        if admission is not None or request.session_id is not None:
            guard = Guard(session_idle=request.session_id is not None, admission=admission)
        write = Append(ref, [draft], Fence("start"), guard, sync)
        try:
            page = await host.ports.journal.append(write)
        except RunExistsError:
            if request.key is None:
                raise
            return await self._first(ref, draft.payload, request.key)
        return await self._scene(ref, Known(page.events, fold(page.events)))

    async def _first(self, ref: RunRef, asked: Payload, key: str) -> Scene:
        """The run that was first asked for with a key.

        Raises:
            KeyUsedError: it was asked for something else.

        """
        scene = await self._scene(await self.locate(ref.tenant_id, ref.run_id))
        first = scene.state.started if scene.state is not None else None
        if first is not None and scene.ref == ref:
            same = {"ordinal": first.ordinal, "language": first.language, "reserve": first.reserve}
            if asked.model_copy(update=same) == first:
                return scene
        raise KeyUsedError(key=key, run_id=ref.run_id)

    async def drive(
        self, scene: Scene, show: Callable[[Shown], None] | None = None, *, steal: bool = False
    ) -> RunState:
        """Advance a run until it has ended or waits."""
        air = self._host.air.show
        scene.show = air if show is None else _both(show, air)
        state = await self._host.drives.drive(scene, steal=steal)
        started = state.started
        if state.ending is not None and started is not None and started.ordinal > 1:
            await self._host.histories.ended(scene.ref, state.position, started.language)
        return state

    async def run(self, request: Request, approver: Approver | None = None) -> RunState:
        """Start a run and drive it; an inline approver decides what would wait."""
        state = await self._alone(await self.start(request))
        while approver is not None and (asked := pending(state)) and state.ending is None:
            ref = RunRef(state.tenant_id, state.session_id, state.run_id, state.run_id)
            known: Known | None = None
            for question in asked:
                allowed = approver(question)
                verdict = "approve" if await _value(allowed) else "reject"
                decision = Decision(verdict, request.by, call=question.call_id)
                with suppress(AlreadyDecidedError, RequestExpiredError, NotWaitingError):
                    known = await self._decided(ref, decision)  # others may decide meanwhile
            state = await self._advance(ref, known)
        return state

    async def _alone(self, scene: Scene, show: Callable[[Shown], None] | None = None) -> RunState:
        """Drive a run that was just written; what a sweeper took first is waited for."""
        while True:
            if scene.state is not None and _rests(scene.state):
                return scene.state
            try:
                return await self.drive(scene, show)
            except RunHeldError:
                await self._host.ports.clock.sleep(HELD)
                scene = await self._scene(scene.ref)

    async def submit(self, request: Request) -> RunState:
        """Write, on the disk, that a run was asked, and queue it."""
        scene = await self.start(request, sync=True)
        state = scene.state or await self.state(scene.ref)
        if not _rests(state):
            self._host.jobs.put(scene.ref)
        return state

    async def advance(self, ref: RunRef) -> RunState:
        """Go on with a run that nobody here waits for.

        Raises:
            RunHeldError: a living driver holds it.

        """
        return await self.drive(await self._scene(ref))

    async def read(self, tenant_id: str, run_id: str) -> RunState:
        """State of a run, by its id."""
        return await self.state(await self.locate(tenant_id, run_id))

    async def follow(self, scene: Scene) -> AsyncGenerator[Shown]:
        """Drive a run and give what happens as it happens; closing the generator stops the run."""
        shown: asyncio.Queue[Shown | None] = asyncio.Queue()
        for event in await self.events(scene.ref):
            shown.put_nowait(event)
        task = asyncio.get_running_loop().create_task(self._alone(scene, shown.put_nowait))
        task.add_done_callback(lambda _: shown.put_nowait(None))
        try:
            while (item := await shown.get()) is not None:
                yield item
            await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def locate(self, tenant_id: str, run_id: str) -> RunRef:
        """Address of a run.

        Raises:
            RunNotFoundError: no run of this tenant has this id.

        """
        ref = await self._host.store.index.locate(tenant_id, run_id)
        if ref is None:
            raise RunNotFoundError(run_id=run_id)
        return ref

    async def state(self, ref: RunRef) -> RunState:
        """State of a run."""
        return await load(ref, self._host.ports)

    async def events(self, ref: RunRef, *, after: int = 0) -> Sequence[Event]:
        """Events of a run behind a position."""
        return (await self._host.store.journal.read(ref, after=after)).events

    async def decide(self, ref: RunRef, decision: Decision) -> RunState:
        """Record a decision, then go on with the run unless another process drives it."""
        return await self._advance(ref, await self._decided(ref, decision))

    async def _decided(self, ref: RunRef, decision: Decision) -> Known:
        def mount(state: RunState) -> World:
            return self._host.world(ref, _agent(state))

        return await decisions.decide(ref, decision, mount, self._host.ports)

    async def resume(self, ref: RunRef, by: Principal, *, now: bool = False) -> RunState:
        """Go on with a run where its journal stopped; `now` takes it from a living driver."""
        state = await decisions.reopen(ref, by, self._host.ports)
        if state.ending is not None and state.ending.status == "completed":
            return state
        return await self.drive(await self._scene(ref), steal=now)

    async def cancel(
        self, ref: RunRef, by: Principal, reason: str = "", *, force: bool = False
    ) -> RunState:
        """Stop a run, wherever it is driven; `force` takes it from a driver that does not answer.

        Bounded: without force, what does not stop in time is at work in the state that is given.
        """
        state = await decisions.cancel(ref, by, reason, self._host.ports)
        if state.ending is not None:
            return state
        drives = self._host.drives
        if drives.halt(ref.run_id, "cancelled") and not await drives.wait(ref.run_id, GRACE + 1):
            return await self.state(ref)
        world = self._host.last_world(ref, _agent(state))
        clock = self._host.ports.clock
        end = clock.monotonic() + GRACE + LOOK
        while True:
            late = clock.monotonic() > end  # its driver looks every second, then has the grace
            try:
                return await self.drive(Scene(ref, world, self._host.ports), steal=force and late)
            except RunHeldError:
                if late:
                    return await self.state(ref)
            await clock.sleep(0.1)

    async def _advance(self, ref: RunRef, known: Known | None = None) -> RunState:
        try:
            return await self.drive(await self._scene(ref, known))
        except RunHeldError:
            return await self.state(ref)
        except SessionBusyError:  # what was decided is done once the session is free
            self._host.jobs.put(ref)
            return await self.state(ref)

    async def _scene(self, ref: RunRef, known: Known | None = None) -> Scene:
        """What a drive of this run needs; only a session with a past is read."""
        host = self._host
        if known is None:
            events = await self.events(ref)
            known = Known(events, fold(events))
        state = known.state
        world = host.world(ref, _agent(state))
        scene = Scene(ref, world, host.ports, state=state)
        if state.started is not None and state.started.ordinal > 1:
            first = known.events[0].seq
            past = await host.histories.before(ref, first, state.started.language)
            scene.history, scene.doubts = past.messages, past.doubts
            scene.history_digest = f"seq:{first - 1}"
        return scene

    async def past(
        self, ref: RunRef, until: int, language: Literal["fr", "en"]
    ) -> Sequence[Message]:
        """What the runs of a session said, up to a position of the session."""
        return (await self._host.histories.before(ref, until + 1, language)).messages


def _both(one: Callable[[Shown], None], two: Callable[[Shown], None]) -> Callable[[Shown], None]:
    def show(item: Shown) -> None:
        one(item)
        two(item)

    return show


def _rests(state: RunState) -> bool:
    """True for a run that has ended, or that only a human moves."""
    return state.ending is not None or state.status == "paused"


async def _value(answer: Awaitable[bool] | bool, /) -> bool:  # noqa: FBT001  what it awaits
    return answer if isinstance(answer, bool) else await answer


def _agent(state: RunState) -> str:
    if state.started is None:
        raise RunNotFoundError(run_id=state.run_id or "?")
    return state.started.agent


def _started(request: Request, language: Literal["fr", "en"], ordinal: int) -> RunStarted:
    options = _PLAIN
    if request.context or request.approver or request.judges != "auto":
        options = CallerOptions(
            judges=request.judges, context=dict(request.context), approver=request.approver
        )
    return RunStarted.make(
        request.agent,
        user(request.message, *request.files),
        request.by,
        language=language,
        ordinal=ordinal,
        options=options,
    )
