"""What every store counts of what runs spend, and whom it then lets in."""

import asyncio
import pkgutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from itertools import count

import pytest

import loom_ia.adapters.storage
from loom_ia.adapters.env import Env
from loom_ia.core.admission import Admission
from loom_ia.core.budget import Budget, Ceiling, Counters, Spent
from loom_ia.core.errors import LoomError, RunQuotaError, TenantBudgetError
from loom_ia.core.events import (
    ModelCalled,
    ModelFailed,
    ModelResponded,
    Principal,
    RunClaimed,
    RunCompleted,
    RunStarted,
)
from loom_ia.core.model import Message, TextBlock, Usage, user
from loom_ia.core.ports import Append, Draft, Fence, Guard, RunRef

BACKENDS = sorted(
    m.name for m in pkgutil.iter_modules(loom_ia.adapters.storage.__path__) if m.ispkg
)
SHARED = [name for name in BACKENDS if name != "memory"]
NOON = datetime(2026, 12, 31, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ids = (f"00000000-0000-7000-9000-{n:012x}" for n in count(1))


@dataclass
class Bench:
    """A store, its clock, and short ways to spend."""

    store: object
    now: datetime = NOON

    def __call__(self):
        return self.now

    async def start(self, run, session="s", *, admission=None, tenant="t", root=""):
        ref = RunRef(tenant, session, run, root or run)
        reserve = None if admission is None else admission.reserve
        fact = RunStarted(
            agent="a",
            message=user("?"),
            principal=Principal(id="t"),
            reserve=reserve,
            root_id=root,
        )
        guard = None if admission is None else Guard(admission=admission)
        write = Append(ref, [Draft(next(ids), fact)], Fence("start"), guard)
        await self.store.journal.append(write)
        return ref

    async def claim(self, ref):
        lease = await self.store.leases.claim(ref, ttl=MINUTE, holder="h")
        await self.write(ref, lease, RunClaimed(holder="h"))
        return lease

    async def write(self, ref, lease, *facts):
        position = len((await self.store.journal.read(ref)).events)
        drafts = [Draft(next(ids), fact) for fact in facts]
        fence = Fence("outcome", position, lease.epoch)
        await self.store.journal.append(Append(ref, drafts, fence))

    async def pay(self, ref, lease, cost, tokens=0):
        message = Message(role="assistant", blocks=(TextBlock(text="x"),))
        usage = Usage(output=tokens)
        answer = ModelResponded(step=1, message=message, usage=usage, cost=Decimal(cost))
        await self.write(ref, lease, ModelCalled(step=1, model="M"), answer)

    async def counters(self, session="s", run="-", tenant="t"):
        return await self.store.index.counters(tenant, session, run)

    async def release(self, ref, lease, *, waiting):
        position = len((await self.store.journal.read(ref)).events)
        assert await self.store.leases.release(lease, position=position, waiting=waiting)


@pytest.fixture
def opening(tmp_path):
    def opened(backend, bench):
        settings = import_module(f"loom_ia.adapters.storage.{backend}").Settings()
        return settings.open(Env(tmp_path, clock=bench))

    return opened


@pytest.fixture(params=BACKENDS)
async def bench(request, opening):
    found = Bench(None)
    async with opening(request.param, found) as store:
        found.store = store
        yield found


def limited(most, reserve=None, **more):
    ceilings = [Ceiling("tenant", "day", "cost", Decimal(most))]
    if reserve is not None:
        ceilings.append(Ceiling("run", "run", "cost", Decimal(reserve)))
    return Admission(Budget(tuple(ceilings)), **more)


async def test_nothing_is_spent_at_first(bench):
    assert await bench.counters() == Counters()


async def test_a_call_counts_in_its_session_and_in_the_day_of_its_stamp(bench):
    ref = await bench.start("r")
    lease = await bench.claim(ref)
    await bench.pay(ref, lease, "0.1", 10)
    await bench.pay(ref, lease, "0.2", 20)
    bench.now = NOON + timedelta(hours=13)  # another day, another month
    await bench.pay(ref, lease, "0.0000007", 1)
    other = await bench.start("o", "autre")
    await bench.pay(other, await bench.claim(other), "5", 5)

    found = await bench.counters()
    assert found.session == Spent(Decimal("0.3000007"), 31)
    assert found.day == found.month == Spent(Decimal("5.0000007"), 6)
    assert await bench.counters(tenant="autre") == Counters()
    bench.now = NOON + timedelta(days=1, hours=13)
    assert (await bench.counters()).day == Spent()
    assert (await bench.counters()).month == Spent(Decimal("5.0000007"), 6)


async def test_what_failed_counts_what_it_took_and_an_unknown_cost_nothing(bench):
    ref = await bench.start("r")
    lease = await bench.claim(ref)
    await bench.write(
        ref,
        lease,
        ModelFailed(step=1, code="x", usage=Usage(input=3), cost=Decimal("0.5")),
        ModelFailed(step=1, code="x", usage=Usage(input=4)),
        ModelFailed(step=1, code="x"),
    )
    assert (await bench.counters()).day == Spent(Decimal("0.5"), 7)


async def test_a_child_spends_for_its_root(bench):
    root = await bench.start("r", admission=limited(10, 4))
    lease = await bench.claim(root)
    child = await bench.start("c", root="r")
    await bench.pay(child, lease, "1")
    assert (await bench.counters()).reserved == 3


async def test_a_run_reserves_what_it_may_spend_until_it_ends(bench):
    first = await bench.start("r1", "s1", admission=limited(10, 4))
    lease = await bench.claim(first)
    await bench.start("r2", "s2", admission=limited(10, 4))
    assert (await bench.counters(run="r1")).reserved == 4
    assert (await bench.counters()).reserved == 8
    await bench.pay(first, lease, "1.5")
    assert await bench.counters() == Counters(
        day=Spent(Decimal("1.5")), month=Spent(Decimal("1.5")), reserved=Decimal("6.5")
    )
    await bench.start("r3", "s3", admission=limited(10, 4))
    with pytest.raises(TenantBudgetError) as caught:
        await bench.start("r4", "s4", admission=limited(10, 4))
    assert str(caught.value) == (
        "tenant t: tenant.max_cost_per_day is 10, 1.5 are spent and 10.5 reserved by other runs; "
        "the run was not started; wait for the next day, or raise the budget"
    )
    assert caught.value.retry_after == 12 * 3600
    await bench.write(first, lease, RunCompleted())
    await bench.start("r4", "s4", admission=limited(10, 4))


async def test_a_refused_run_leaves_nothing(bench):
    await bench.start("r1", admission=limited(1, 1))
    with pytest.raises(TenantBudgetError):
        await bench.start("r2", "s2", admission=limited(1, 1))
    assert list((await bench.store.journal.session("t", "s2")).events) == []
    assert await bench.store.index.locate("t", "r2") is None
    assert [s.session_id for s in await bench.store.index.sessions("t")] == ["s"]
    assert (await bench.counters()).reserved == 1
    await bench.start("r2", "s2")  # its names are still free


async def test_a_run_that_waits_gives_back_and_takes_again_when_it_goes_on(bench):
    ref = await bench.start("r1", admission=limited(10, 4))
    lease = await bench.claim(ref)
    await bench.release(ref, lease, waiting=True)
    assert (await bench.counters()).reserved == 0
    bench.now += MINUTE
    lease = await bench.claim(ref)
    assert (await bench.counters()).reserved == 4
    await bench.release(ref, lease, waiting=False)
    assert (await bench.counters()).reserved == 4


async def test_what_reaches_exactly_the_budget_leaves_no_room(bench):
    ref = await bench.start("r1", admission=limited(1))
    lease = await bench.claim(ref)
    await bench.pay(ref, lease, "0.999999")
    await bench.start("r2", "s2", admission=limited(1))
    await bench.pay(ref, lease, "0.000001")
    with pytest.raises(TenantBudgetError):
        await bench.start("r3", "s3", admission=limited(1))


async def test_a_minute_slides(bench):
    three = Admission(runs_per_minute=3)
    for n in range(3):
        await bench.start(f"r{n}", f"s{n}", admission=three)
        bench.now += timedelta(seconds=10)
    with pytest.raises(RunQuotaError) as caught:
        await bench.start("r3", "s3", admission=three)
    assert (caught.value.retry_after, caught.value.kind) == (30, "limited")
    assert await bench.store.index.locate("t", "r3") is None
    await bench.start("x", "x", admission=three, tenant="autre")
    bench.now += timedelta(seconds=30)
    await bench.start("r3", "s3", admission=three)
    with pytest.raises(RunQuotaError) as caught:
        await bench.start("r4", "s4", admission=three)
    assert caught.value.retry_after == 10


async def test_runs_that_start_together_do_not_pass_the_quota_nor_the_budget(bench):
    admission = limited(10, 4, runs_per_minute=5)

    async def one(n):
        try:
            await bench.start(f"r{n}", f"s{n}", admission=admission)
        except LoomError as error:
            return type(error)
        return None

    found = await asyncio.gather(*(one(n) for n in range(20)))
    assert found.count(None) == 3
    assert found.count(TenantBudgetError) == 17


async def test_what_an_erased_session_spent_stays_in_its_day(bench):
    ref = await bench.start("r1", admission=limited(10, 4))
    lease = await bench.claim(ref)
    await bench.pay(ref, lease, "1")
    bench.now += MINUTE
    await bench.store.journal.delete("t", "s", by="t", complete=True)
    found = await bench.counters()
    assert found == Counters(day=Spent(Decimal(1)), month=Spent(Decimal(1)))


@pytest.mark.parametrize("backend", SHARED)
async def test_two_processes_count_together(opening, backend):
    one, two = Bench(None), Bench(None)
    async with opening(backend, one) as first, opening(backend, two) as second:
        one.store, two.store = first, second
        ref = await one.start("r1", admission=limited(10, 4))
        lease = await one.claim(ref)
        assert (await two.counters()).reserved == 4
        await one.pay(ref, lease, "1", 3)
        assert (await two.counters()).day == Spent(Decimal(1), 3)
        await two.start("r2", "s2", admission=limited(10, 4))
        await two.start("r3", "s3", admission=limited(10, 4))
        for bench in (one, two):
            with pytest.raises(TenantBudgetError):
                await bench.start("r4", "s4", admission=limited(10, 4))


@pytest.mark.parametrize("backend", SHARED)
async def test_counters_outlive_their_process(opening, backend):
    bench = Bench(None)
    async with opening(backend, bench) as store:
        bench.store = store
        ref = await bench.start("r1", admission=limited(10, 4))
        await bench.pay(ref, await bench.claim(ref), "1.25", 3)
        before = await bench.counters()
    async with opening(backend, bench) as store:
        bench.store = store
        assert await bench.counters() == before


async def test_lost_or_cut_counters_of_a_folder_are_made_again_from_its_sessions(opening, tmp_path):
    bench = Bench(None)
    async with opening("jsonl", bench) as store:
        bench.store = store
        ref = await bench.start("r1", admission=limited(10, 4))
        await bench.pay(ref, await bench.claim(ref), "1.25", 3)
        before = await bench.counters()
    [file] = await asyncio.to_thread(lambda: list(tmp_path.rglob(".spending.jsonl")))
    await asyncio.to_thread(file.unlink)
    async with opening("jsonl", bench) as store:
        bench.store = store
        assert await bench.counters() == before
        cut = await asyncio.to_thread(file.read_bytes) + b'\n{"day":"2026-12-31","cos'
        await asyncio.to_thread(file.write_bytes, cut)
        other = await bench.start("r2", "s2")
        await bench.pay(other, await bench.claim(other), "1")
        assert (await bench.counters()).day == Spent(Decimal("2.25"), 3)
