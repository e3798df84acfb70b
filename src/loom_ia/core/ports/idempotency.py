"""What the core asks of a store of idempotency keys: who acts under one, and what it gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from loom_ia.core.model import ContentBlock
from loom_ia.core.ports.journal import RunRef


@dataclass(frozen=True, slots=True)
class Claim:
    """One call that wants to act under a key. A key belongs to one tenant and one tool."""

    ref: RunRef
    call_id: str
    tool: str
    key: str
    """In its one spelling (see `core.sameness`)."""
    digest: str
    """Of the arguments: one key stands for one action."""

    def same_call(self, other: Claim) -> bool:
        """True for another launch of the same call."""
        return (self.ref.run_id, self.call_id) == (other.ref.run_id, other.call_id)


@dataclass(frozen=True, slots=True)
class Reservation:
    """A key as its store holds it."""

    owner: Claim
    token: str
    """Changes each time the key is reserved again."""
    result: tuple[ContentBlock, ...] | None = None
    """What the owner's call gave; None until it has."""


class Idempotency(Protocol):
    """Keys, each held by one call. Each method is atomic, and on the disk when it returns."""

    @property
    def shared(self) -> bool:
        """True when runs of several processes meet here, and what is kept outlives them."""
        ...

    async def reserve(self, claim: Claim, *, over: str | None = None) -> Reservation:
        """Take the key if it is free, the caller's own, or still holds the token `over`; who holds
        it then. The result of a call is kept when that call reserves again, and given with it.

        Raises:
            StoreUnavailableError: nobody knows whether it was taken.

        """
        ...

    async def keep(self, held: Reservation, result: tuple[ContentBlock, ...]) -> None:
        """Keep what a call gave, if that call still holds the key."""
        ...

    async def free(self, held: Reservation) -> None:
        """Give the key back: the launch that took it did not act. Nothing if it changed since."""
        ...

    async def drop(self, tenant_id: str, session_id: str) -> None:
        """Erase the keys that the runs of a session hold, with their results."""
        ...
