"""Keys in the memory of a process."""

from __future__ import annotations

import secrets
from dataclasses import replace

from loom_ia.core.model import ContentBlock
from loom_ia.core.ports import Claim, Reservation


def token() -> str:
    """What tells one reservation of a key from the next one."""
    return secrets.token_hex(8)


class KeyTable:
    """Keys by tenant, tool and key."""

    shared = False

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], Reservation] = {}

    async def reserve(self, claim: Claim, *, over: str | None = None) -> Reservation:
        place = _place(claim)
        held = self._kept.get(place)
        if held is not None and held.owner.same_call(claim):
            held = Reservation(claim, token(), held.result)
        elif held is None or held.token == over:
            held = Reservation(claim, token())
        self._kept[place] = held
        return held

    async def keep(self, held: Reservation, result: tuple[ContentBlock, ...]) -> None:
        place = _place(held.owner)
        now = self._kept.get(place)
        if now is not None and now.owner.same_call(held.owner):
            self._kept[place] = replace(now, result=result)

    async def free(self, held: Reservation) -> None:
        place = _place(held.owner)
        now = self._kept.get(place)
        if now is not None and now.token == held.token and now.result is None:
            del self._kept[place]

    async def drop(self, tenant_id: str, session_id: str) -> None:
        for place, held in list(self._kept.items()):
            ref = held.owner.ref
            if (ref.tenant_id, ref.session_id) == (tenant_id, session_id):
                del self._kept[place]


def _place(claim: Claim) -> tuple[str, str, str]:
    return claim.ref.tenant_id, claim.tool, claim.key
