"""A driver keeps its lease whatever its work does, and stops before the end of one it lost."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from loom_ia.adapters.storage.memory import MemoryStore
from loom_ia.core.errors import StoreUnavailableError
from loom_ia.core.events import CancelRequested, Principal, ToolCalled, ToolUnknown
from loom_ia.core.model import ToolSpec
from loom_ia.core.ports import Append, Draft, Fence, ToolOutput
from loom_ia.runtime.drives import Drives
from loom_ia.testing import ManualClock
from loom_ia.testing.journals import Gated

LEASE = 60.0
T0 = datetime(2026, 9, 1, 8, tzinfo=UTC)


class Deaf:
    """Answers no renewal: it hangs, or raises."""

    def __init__(self, *, raises):
        self.raises = raises

    async def enter(self, operation):
        if operation != "renew":
            return
        if self.raises:
            raise StoreUnavailableError(path="data", reason="en panne")
        await asyncio.Event().wait()

    async def leave(self, operation):
        return


class Long:
    """A tool that works until it is told to end."""

    def __init__(self, ledger):
        self.spec = ToolSpec(name="envoyer", description="", input_schema={})
        self.ledger, self.left, self.enough = ledger, asyncio.Event(), asyncio.Event()
        self.fences = []

    def bind(self, arguments):
        async def launch(context):
            self.ledger.append(context.call_id)
            self.fences.append(context.fence)
            self.left.set()
            await self.enough.wait()
            return ToolOutput(())

        return launch


class Shop:
    """A stage whose store and drives follow one clock."""

    def __init__(self, stage, script, *gates):
        self.clock = ManualClock()
        self.store = MemoryStore(self.now)
        self.stage = stage(script, store=self.store)
        self.tool = Long(self.stage.ledger)
        self.stage.world = replace(
            self.stage.world, tools={**self.stage.world.tools, "envoyer": self.tool}
        )
        self.seen = Gated(self.store, *gates)

    def now(self):
        return T0 + timedelta(seconds=self.clock.monotonic())

    def drives(self, store=None):
        return Drives(self.ports(store or self.seen))

    def ports(self, store):
        return replace(self.stage.ports(store), clock=self.clock, lease=LEASE)

    def scene(self, store=None):
        return replace(self.stage.scene(store or self.seen), ports=self.ports(store or self.seen))

    async def pass_time(self, seconds):
        for _ in range(seconds):
            await self.clock.until_sleeping()
            self.clock.advance(1)
            for _ in range(20):
                await asyncio.sleep(0)


async def test_a_lease_is_renewed_as_long_as_the_work_lasts(stage):
    shop = Shop(stage, [["envoyer"]])
    await shop.stage.start()
    drives = shop.drives()
    run = asyncio.ensure_future(drives.drive(shop.scene()))
    await shop.tool.left.wait()
    await shop.pass_time(300)
    shop.tool.enough.set()
    state = await run
    await drives.close()
    assert (state.status, state.epoch) == ("completed", 1)
    assert shop.tool.fences == [1]


@pytest.mark.parametrize("raises", [True, False])
async def test_a_worker_that_cannot_renew_stops_before_its_lease_ends(stage, raises):
    shop = Shop(stage, [["envoyer"], ["noter"]], Deaf(raises=raises))
    await shop.stage.start()
    drives = shop.drives()
    run = asyncio.ensure_future(drives.drive(shop.scene()))
    await shop.tool.left.wait()
    await shop.pass_time(50)
    state = await run
    assert shop.clock.monotonic() < LEASE
    await drives.close()
    told = [e.payload for e in await shop.stage.events() if isinstance(e.payload, ToolUnknown)]
    assert [unknown.reason for unknown in told] == ["lease_lost"]
    assert state.ending is None
    assert len(shop.stage.ledger) == 1


class Suspended:
    """Stops the process for an hour once an intent is written, and lets others work meanwhile."""

    def __init__(self, meanwhile):
        self.meanwhile, self.shop, self.over = meanwhile, None, False

    async def enter(self, operation):
        return

    async def leave(self, operation):
        if operation != "append" or self.over:
            return
        if any(isinstance(d.payload, ToolCalled) for d in self.shop.seen.appends[-1].drafts):
            self.over = True
            self.shop.clock.advance(3600)
            await self.meanwhile(self.shop)


async def _others(shop):
    await shop.stage.drive(shop.store)


async def _nobody(_shop):
    return


@pytest.mark.parametrize(("meanwhile", "effects"), [(_others, 0), (_nobody, 1)])
async def test_an_effect_whose_lease_ended_leaves_only_if_nobody_took_the_run(
    stage, meanwhile, effects
):
    gate = Suspended(meanwhile)
    shop = gate.shop = Shop(stage, [["envoyer"]], gate)
    await shop.stage.start()
    drives = shop.drives()
    shop.tool.enough.set()
    state = await drives.drive(shop.scene())
    await drives.close()
    assert state.status == "completed"
    assert len(shop.stage.ledger) == effects


async def test_a_store_that_does_not_answer_for_one_run_delays_no_cancellation(stage):
    shop = Shop(stage, [["envoyer"]], Deaf(raises=False))
    await shop.stage.start()
    drives = shop.drives()
    run = asyncio.ensure_future(drives.drive(shop.scene()))
    await shop.tool.left.wait()
    await shop.pass_time(25)
    state = await shop.stage.state()
    fact = CancelRequested(by=Principal(id="cli:dupont", channel="cli"))
    draft = Draft(shop.stage.ids.new(), fact)
    await shop.store.journal.append(
        Append(shop.stage.ref, [draft], Fence("decision", state.position))
    )
    await shop.pass_time(1)
    assert (await run).status == "cancelled"
    await drives.close()
