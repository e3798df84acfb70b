"""What every store of idempotency keys promises. Each check is given an empty store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from loom_ia.core.model import ContentBlock, ImageBlock, TextBlock
from loom_ia.core.ports import Claim, Idempotency, RunRef

Check = Callable[[Idempotency], Awaitable[None]]
RESULT: tuple[ContentBlock, ...] = (
    TextBlock(text="envoyé : « é\u00a0» ☂"),
    ImageBlock(uri="artifact://t/s/0.png", media_type="image/png"),
)


def claim(
    run: str = "r1", call: str = "c0", *, key: str = "relance:D-42", tenant: str = "t"
) -> Claim:
    """A call of a run that wants a key."""
    return Claim(RunRef(tenant, f"s-{run}", run, run), call, "envoyer", key, "digest")


async def a_call_holds_the_key_it_took_and_may_take_it_again(store: Idempotency) -> None:
    first = await store.reserve(claim())
    again = await store.reserve(claim())
    assert first.owner == again.owner == claim()
    assert first.result is again.result is None


async def one_call_holds_a_key_and_the_others_are_told_which(store: Idempotency) -> None:
    await store.reserve(claim())
    for other in (claim("r2"), claim(call="c1"), replace(claim("r3"), digest="other")):
        assert (await store.reserve(other)).owner == claim()


async def many_at_once_find_one_owner(store: Idempotency) -> None:
    found = await asyncio.gather(*(store.reserve(claim(f"r{n}")) for n in range(20)))
    assert len({held.owner.ref.run_id for held in found}) == 1


async def tenants_tools_and_keys_are_apart(store: Idempotency) -> None:
    claims = (
        claim(),
        claim("r2", tenant="u"),
        claim("r3", key="relance:D-43"),
        replace(claim("r4"), tool="payer"),
    )
    for one in claims:
        await store.reserve(one)
    assert [(await store.reserve(one)).owner for one in claims] == list(claims)


async def a_result_is_kept_for_all_and_whole(store: Idempotency) -> None:
    await store.keep(await store.reserve(claim()), RESULT)
    for one in (claim(), claim("r2")):
        held = await store.reserve(one)
        assert (held.owner, held.result) == (claim(), RESULT)


async def a_key_that_is_given_back_is_free(store: Idempotency) -> None:
    await store.free(await store.reserve(claim()))
    assert (await store.reserve(claim("r2"))).owner == claim("r2")


async def a_launch_gives_back_its_own_reservation_only(store: Idempotency) -> None:
    old = await store.reserve(claim())
    await store.reserve(claim())
    await store.free(old)
    assert (await store.reserve(claim("r2"))).owner == claim()


async def a_result_is_not_given_back(store: Idempotency) -> None:
    held = await store.reserve(claim())
    await store.keep(held, RESULT)
    await store.free(held)
    assert (await store.reserve(claim("r2"))).result == RESULT


async def a_key_is_taken_over_only_as_it_was_seen(store: Idempotency) -> None:
    seen = await store.reserve(claim())
    assert (await store.reserve(claim("r2"), over="never seen")).owner == claim()
    await store.reserve(claim())
    assert (await store.reserve(claim("r2"), over=seen.token)).owner == claim()
    now = await store.reserve(claim("r2"))
    assert (await store.reserve(claim("r2"), over=now.token)).owner == claim("r2")
    await store.keep(seen, RESULT)
    assert (await store.reserve(claim("r2"))).result is None


async def a_result_that_comes_late_is_kept(store: Idempotency) -> None:
    old = await store.reserve(claim())
    await store.reserve(claim())
    await store.keep(old, RESULT)
    assert (await store.reserve(claim("r2"))).result == RESULT


async def the_keys_of_an_erased_session_are_free_and_no_other(store: Idempotency) -> None:
    held = await store.reserve(claim())
    others = (claim("r2", key="k"), claim("r1", key="k", tenant="u"))
    for one in (claim(call="c1", key="l"), *others):
        await store.keep(await store.reserve(one), RESULT)
    await store.drop("t", "s-r1")
    await store.keep(held, RESULT)
    for key in ("relance:D-42", "l"):
        assert (await store.reserve(claim("r3", key=key))).result is None
    assert [(await store.reserve(one)).result for one in others] == [RESULT, RESULT]


async def any_text_is_a_key(store: Idempotency) -> None:
    keys = ("", "é", "é", "'; DROP TABLE keys", "k" * 1000, "☂\n", "\x7f")
    for n, key in enumerate(keys):
        assert (await store.reserve(claim(f"r{n}", key=key))).owner.key == key


SINGLE: tuple[Check, ...] = (a_call_holds_the_key_it_took_and_may_take_it_again,)
"""What keys of single calls want; every store does this much."""

MANY: tuple[Check, ...] = (
    one_call_holds_a_key_and_the_others_are_told_which,
    many_at_once_find_one_owner,
    tenants_tools_and_keys_are_apart,
    a_result_is_kept_for_all_and_whole,
    a_key_that_is_given_back_is_free,
    a_launch_gives_back_its_own_reservation_only,
    a_result_is_not_given_back,
    a_key_is_taken_over_only_as_it_was_seen,
    a_result_that_comes_late_is_kept,
    the_keys_of_an_erased_session_are_free_and_no_other,
    any_text_is_a_key,
)
"""What keys that runs share want."""
