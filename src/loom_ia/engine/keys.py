"""Idempotency keys: reserved before a call leaves, asked what an earlier call gave under them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import dataclass

from loom_ia.core.errors import LoomError
from loom_ia.core.events import ToolCompleted, ToolRefused
from loom_ia.core.model import ContentBlock
from loom_ia.core.ports import (
    Claim,
    KeyFaultError,
    Launch,
    Paging,
    Reservation,
    RunFilter,
    ToolContext,
    ToolError,
    ToolOutput,
)
from loom_ia.core.projections.fates import Outlook, fate_of
from loom_ia.core.sameness import same_call
from loom_ia.core.state import Call, RunState
from loom_ia.core.wording import say
from loom_ia.engine.world import Scene

logger = logging.getLogger("loom_ia.tool")

Answered = ToolCompleted | ToolRefused
"""What is told of a call that does not leave."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """The key is the call's own: it may leave once its intent is written."""

    key: str
    """As the tool and the journal know it."""
    held: Reservation | None
    """None where the intent in the journal is the reservation."""


class Keys:
    """Reserves keys for the calls of one run."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    async def reserve(self, call: Call, state: RunState) -> Reserved | Answered:
        """Take the key of a call; what is told of it instead when it must not leave.

        Raises:
            StoreUnavailableError: the store of keys failed; the call has not left.

        """
        language, store = self._scene.world.language, self._scene.ports.keys
        try:
            shown = self._scene.key(state, call)
        except KeyFaultError as fault:
            text = say(language, "key_invalid", what=str(fault))
            return ToolRefused(call_id=call.id, code="key_invalid", text=text)
        if store is None:
            return Reserved(shown, None)
        claim, over = self._claim(call, shown), None
        while True:
            held = await store.reserve(claim, over=over)
            if held.owner.same_call(claim):
                recalled = _recalled(call, held)
                return Reserved(shown, held) if recalled is None else recalled
            outlook, result = await self._outlook(held)
            if outlook != "idle":
                return self._refused(call, shown, held, (outlook, result), claim)
            over = held.token  # its owner did not act and will not: the key is free

    async def kept(self, call: Call, state: RunState) -> ToolCompleted | None:
        """What the call itself gave before its driver died, if the store kept it."""
        if call.name not in self._scene.world.keys or self._scene.ports.keys is None:
            return None
        claim = self._claim(call, self._scene.key(state, call))
        held = await self._scene.ports.keys.reserve(claim)
        return _recalled(call, held) if held.owner.same_call(claim) else None

    def _claim(self, call: Call, shown: str) -> Claim:
        rule, ref = self._scene.world.keys[call.name], self._scene.ref
        key = shown if rule.of is None else shown.removeprefix(f"{ref.tenant_id}:")
        return Claim(ref, call.id, rule.tool, key, same_call(rule.tool, call.arguments))

    def _refused(
        self,
        call: Call,
        shown: str,
        held: Reservation,
        known: tuple[Outlook, tuple[ContentBlock, ...]],
        claim: Claim,
    ) -> Answered:
        outlook, result = known
        language = self._scene.world.language
        if held.owner.digest != claim.digest:
            code = "key_conflict"
        elif outlook == "acted":
            note = say(language, "recalled", key=shown)
            return _earlier(call, held.owner, result).model_copy(update={"note": note})
        else:
            code = "key_unknown" if outlook == "unknown" else "key_in_progress"
        text = say(language, code, key=shown)
        return ToolRefused(call_id=call.id, code=code, text=text)

    async def _outlook(self, held: Reservation) -> tuple[Outlook, tuple[ContentBlock, ...]]:
        """What became of the call that holds a key, and what it gave."""
        if held.result is not None:
            return "acted", held.result
        owner = held.owner
        driven = await self._driven(owner)  # first: a run may end while its journal is read
        events = (await self._scene.ports.journal.read(owner.ref)).events
        if not events:  # its journal is not this one
            return "unknown", ()
        fate = fate_of(events, owner.call_id)
        if fate.outlook == "held" and fate.ended:
            return "idle", ()
        if fate.outlook == "left" and not driven:
            return "unknown", ()
        return fate.outlook, fate.result

    async def _driven(self, owner: Claim) -> bool:
        """True while a living driver holds the run of a call."""
        index, ref = self._scene.ports.index, owner.ref
        if ref.root_id == self._scene.ref.root_id:
            return True
        if index is None:
            return False
        paging = Paging(limit=100)
        while True:
            page = await index.runs(ref.tenant_id, RunFilter(ref.session_id), paging)
            for entry in page:
                if entry.run_id == ref.root_id:
                    return entry.driven(page.now)
            if not page.next:
                return False
            paging = Paging(page.next, 100)

    def remembering(self, launch: Launch, held: Reservation, *, sure: bool) -> Launch:
        """A launch whose result is kept; the key is given back when it did not act.

        `sure`: an exception, whichever it is, says that the tool did not act.
        """
        store = self._scene.ports.keys
        if store is None:
            return launch

        async def remembered(context: ToolContext) -> ToolOutput:
            try:
                output = await launch(context)
            except Exception as error:
                if sure or isinstance(error, ToolError):
                    await _tried(store.free(held), context)
                raise
            await _tried(store.keep(held, output.blocks), context)
            return output

        return remembered


def _recalled(call: Call, held: Reservation) -> ToolCompleted | None:
    """The result that the store kept of a call, told as its outcome."""
    return None if held.result is None else _earlier(call, held.owner, held.result)


def _earlier(call: Call, owner: Claim, result: tuple[ContentBlock, ...]) -> ToolCompleted:
    recalled = f"{owner.ref.run_id}/{owner.call_id}"
    return ToolCompleted(call_id=call.id, blocks=result, recalled=recalled)


async def _tried(work: Awaitable[None], context: ToolContext) -> None:
    """Wait for what the store of keys is asked; when it fails, the journal tells all the same."""
    try:
        await work
    except LoomError as error:
        extra = {"run_id": context.run_id, "span_id": context.call_id}
        logger.warning("key of call %s: %s", context.call_id, error, extra=extra)
