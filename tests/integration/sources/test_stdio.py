"""Tools of a server over stdio: offered, called, and no process left whatever becomes of it."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from loom_ia.core.events import (
    SourceOpened,
    SourceUnreachable,
    ToolCalled,
    ToolCompleted,
    ToolUnknown,
)


async def until(true) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - other processes tell it
            await asyncio.sleep(0.02)


def facts(events, *kinds):
    return [event.payload for event in events if isinstance(event.payload, kinds)]


async def test_a_tool_of_a_server_is_offered_under_its_prefix_and_called(kit, notebook, ledger):
    async with kit.loom([kit.call("n__read", name="D-42"), {"text": "done"}], notebook()) as loom:
        result = await loom.run("a", "?")
        events = await loom.events(result.run_id)
        request = await loom.request(result.run_id, 1)
    assert result.status == "completed"
    (opened,) = facts(events, SourceOpened)
    assert (opened.server, opened.era, opened.protocol) == (
        "notebook 1.0",
        "stateless",
        "2026-07-28",
    )
    assert "read" in opened.tools
    assert {tool.name for tool in request.tools} == {f"n__{name}" for name in opened.tools}
    (done,) = facts(events, ToolCompleted)
    assert done.blocks[0].text == "note D-42: 1 840,00 €"
    assert ledger.acts == ["read D-42"]
    assert ledger.alive == []


async def test_an_entry_chooses_its_tools_and_its_prefix(kit, notebook):
    entry = {"mcp": "n", "alias": "c", "include": ["read", "send", "gone"], "exclude": ["send"]}
    async with kit.loom([{"text": "-"}], notebook(), tools=[entry]) as loom:
        result = await loom.run("a", "?")
        (opened,) = facts(await loom.events(result.run_id), SourceOpened)
        request = await loom.request(result.run_id, 1)
    assert [tool.name for tool in request.tools] == ["c__read"]
    assert opened.tools == ("read",)
    assert opened.left_out == {"gone": "absent"}


async def test_what_a_tool_calls_its_own_failure_is_an_error_result(kit, notebook):
    async with kit.loom([kit.call("n__fail"), {"text": "-"}], notebook()) as loom:
        result = await loom.run("a", "?")
        (done,) = facts(await loom.events(result.run_id), ToolCompleted, ToolUnknown)
    assert done.is_error
    assert "out of paper" in done.blocks[0].text


async def test_arguments_are_checked_before_anything_leaves(kit, notebook, ledger):
    script = [kit.call("n__send", to=3), kit.call("n__send"), {"text": "-"}]
    async with kit.loom(script, notebook()) as loom:
        result = await loom.run("a", "?")
        told = [e.payload.text for e in await loom.events(result.run_id) if "refused" in e.type]
    head = "Invalid arguments for n__send. Correct them and make the call again:\n"
    assert told == [
        f'{head}- to: type: "string"',
        f'{head}- arguments: required: ["to"]',
    ]
    assert ledger.acts == []


async def test_noise_on_its_output_is_skipped_and_its_errors_are_drained(kit, notebook):
    async with kit.loom([kit.call("n__loud", size=10), {"text": "-"}], notebook()) as loom:
        result = await loom.run("a", "?")
        (done,) = facts(await loom.events(result.run_id), ToolCompleted)
    assert done.blocks[0].text == "y" * 10


async def test_an_answer_that_is_too_large_is_said_to_be_and_the_server_goes_on(kit, notebook):
    script = [kit.call("n__loud", size=300_000), kit.call("n__read", name="x"), {"text": "-"}]
    async with kit.loom(script, notebook(max_message=65536)) as loom:
        result = await loom.run("a", "?")
        large, small = facts(await loom.events(result.run_id), ToolCompleted)
    assert large.is_error
    assert "exceeds 65536 bytes" in large.blocks[0].text
    assert not small.is_error


async def test_a_long_answer_is_cut_where_the_model_would_drown(kit, notebook):
    async with kit.loom([kit.call("n__loud", size=250_000), {"text": "-"}], notebook()) as loom:
        result = await loom.run("a", "?")
        (done,) = facts(await loom.events(result.run_id), ToolCompleted)
    assert done.blocks[0].text.endswith("[Cut: 200000 characters shown of 250000.]")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "outcome", "launches"),
    [("slow_send", ToolUnknown, 1), ("slow_read", ToolUnknown, 2)],
)
async def test_a_call_lost_with_its_server_is_unknown_and_only_a_safe_one_leaves_again(
    kit, notebook, ledger, tool, outcome, launches
):
    argument = {"slow_send": "to", "slow_read": "name"}[tool]
    script = [kit.call(f"n__{tool}", **{argument: "x"}), {"text": "-"}]
    async with kit.loom(script, notebook("--grandchild")) as loom:
        running = asyncio.create_task(loom.run("a", "?"))
        for launch in range(1, launches + 1):
            await until(lambda launch=launch: len(ledger.acts) == launch)
            first = len(ledger.pids) - 3
            os.kill(ledger.pids[first], signal.SIGKILL)
            await until(lambda sent=launch: not ledger.alive or len(ledger.acts) > sent)
        result = await running
        events = await loom.events(result.run_id)
    assert ledger.acts == [f"{tool} x"] * launches
    assert len(facts(events, ToolCalled)) == launches
    (unknown,) = facts(events, ToolUnknown)
    assert unknown.reason == "connection"
    assert result.status == "completed"
    assert ledger.alive == []


@pytest.mark.slow
async def test_a_server_killed_between_two_runs_is_started_again(kit, notebook, ledger):
    script = [kit.call("n__read", name="x"), {"text": "-"}]
    async with kit.loom([*script, *script], notebook("--grandchild")) as loom:
        await loom.run("a", "?")
        os.kill(ledger.pids[0], signal.SIGKILL)
        await until(lambda: not ledger.alive)
        result = await loom.run("a", "?")
        (done,) = facts(await loom.events(result.run_id), ToolCompleted)
    assert not done.is_error
    assert ledger.acts == ["read x", "read x"]
    assert ledger.alive == []


async def test_a_server_that_does_not_start_is_told_and_the_others_serve(kit, notebook):
    broken = notebook(name="b", command="no-such-program-anywhere")
    async with kit.loom([kit.call("n__read", name="x"), {"text": "-"}], broken, notebook()) as loom:
        result = await loom.run("a", "?")
        events = await loom.events(result.run_id)
    (lost,) = facts(events, SourceUnreachable)
    assert (lost.source, lost.required) == ("b", False)
    assert "no-such-program-anywhere" in lost.reason
    assert result.status == "completed"
    assert [one.is_error for one in facts(events, ToolCompleted)] == [False]


async def test_a_run_fails_without_a_server_that_it_requires_and_resumes_with_it(
    kit, notebook, ledger
):
    gate = kit.root / "gate"
    program = f"test -e {gate} || exit 3; exec {sys.executable} $0 $1"
    args = ["-c", program, *notebook()["args"]]
    server = notebook(command="sh", args=args, scope="run")
    entry = {"mcp": "n", "required": True}
    script = [kit.call("n__read", name="x"), {"text": "-"}]
    async with kit.loom(script, server, tools=[entry]) as loom:
        failed = await loom.run("a", "?")
        gate.touch()
        done = await loom.resume(failed.run_id)
    assert failed.status == "failed"
    assert failed.resumable
    assert failed.error_code == "source_required"
    assert done.status == "completed"
    assert ledger.acts == ["read x"]


@pytest.mark.slow
async def test_a_failing_server_is_not_tried_again_at_once(kit, notebook):
    attempts = kit.root / "attempts"
    server = notebook(command="sh", args=["-c", f"echo x >> {attempts}; exit 3"])
    async with kit.loom([{"text": "-"}, {"text": "-"}], server) as loom:
        await loom.run("a", "?")
        result = await loom.run("a", "?")
        (lost,) = facts(await loom.events(result.run_id), SourceUnreachable)
    assert attempts.read_text() == "x\n"
    assert "next attempt in" in lost.reason


async def test_a_connection_of_scope_run_lives_as_long_as_its_run(kit, notebook, ledger):
    script = [kit.call("n__read", name="x"), {"text": "-"}]
    async with kit.loom(script * 2, notebook("--grandchild", scope="run")) as loom:
        await loom.run("a", "?")
        assert ledger.alive == []
        await loom.run("a", "?")
        assert ledger.alive == []
    assert len(ledger.pids) == 6


@pytest.mark.slow
async def test_fifty_runs_with_their_own_servers_leave_no_process(kit, notebook, ledger):
    before = set(kit.children())
    script = [kit.call("n__read", name="x"), {"text": "-"}]
    async with kit.loom(script * 50, notebook("--grandchild", scope="run")) as loom:
        for batch in range(10):
            results = await asyncio.gather(*(loom.run("a", f"{batch}") for _ in range(5)))
            assert {result.status for result in results} == {"completed"}
        assert ledger.alive == []
        assert set(kit.children()) == before
    assert len(ledger.pids) == 150


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_we_are_ended_in_the_middle_of_a_call(kit, notebook, ledger, number):
    script = [kit.call("n__slow_send", to="x"), {"text": "-"}]
    loom = kit.loom(script, notebook("--grandchild"))
    path = kit.root / "loom.yaml"
    path.write_text(yaml.safe_dump(loom.config.model_dump(mode="json", exclude_unset=True)))
    (kit.root / "agents").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "loom_ia.access.cli.main", "--config", str(path), "run", "a", "?"],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    asyncio.run(until(lambda: ledger.acts))
    process.send_signal(number)
    process.wait(timeout=30)
    asyncio.run(until(lambda: not ledger.alive))
    assert len(ledger.pids) == 3


def test_the_environment_of_a_server_is_the_one_that_is_declared(kit, monkeypatch, tmp_path: Path):
    from loom_ia.adapters.sources.mcp.program import environment

    own = {"PATH": "/bin", "HOME": "/h", "ANTHROPIC_API_KEY": "sk-secret"}
    given = environment(own, {"TOKEN": "t"})
    assert given["TOKEN"] == "t"
    assert given["HOME"] == "/h"
    assert given["PATH"].endswith(":/bin")
    assert "ANTHROPIC_API_KEY" not in given
