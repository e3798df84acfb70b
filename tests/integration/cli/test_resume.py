"""`loom resume` in front of a driver: dead, it is followed at once; alive, it is waited for."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LOOM = [sys.executable, "-m", "loom_ia.access.cli.main"]


@contextmanager
def typing(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "LOOM_LANG": "en"}
    process = subprocess.Popen(
        [*LOOM, *words], cwd=folder, env=environ, text=True, stdout=-1, stderr=-1
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(params=["jsonl", "sqlite"])
def slow(request: pytest.FixtureRequest, project: Path) -> Path:
    """A project on each backend; the agent `lent` waits inside a tool until a file is there."""
    if request.param == "sqlite":
        config = project / "loom.yaml"
        text = config.read_text(encoding="utf-8")
        config.write_text(text.replace("{backend: jsonl, path: data}", "{backend: sqlite}"))
    return project


def test_a_living_driver_is_waited_for_and_its_end_is_told(until, slow: Path) -> None:
    with typing(slow, "run", "lent", "Attends", "--session", "s") as first:
        until((slow / "parti").exists)
        run = run_of(slow)
        with typing(slow, "resume", run) as second:
            assert second.stderr is not None
            line = second.stderr.readline()
            assert f"Run {run} is driven by " in line
            assert f":{first.pid} until 20" in line
            assert line.endswith(f"waiting; to take it: loom resume --now {run}\n")
            (slow / "assez").touch()
            assert second.wait(60) == 0
            assert second.stdout is not None
            assert second.stdout.read() == "Enfin.\n"
        assert first.wait(60) == 0


def test_a_living_driver_is_robbed_only_if_asked(until, loom, slow: Path) -> None:
    with typing(slow, "run", "lent", "Attends", "--session", "s") as first:
        until((slow / "parti").exists)
        run = run_of(slow)
        os.kill(first.pid, signal.SIGSTOP)
        (slow / "assez").touch()
        done = loom(slow, "resume", "--now", run)
        assert (done.returncode, done.stdout) == (0, "Enfin.\n")
        os.kill(first.pid, signal.SIGCONT)
        assert first.wait(60) == 0
        assert first.stdout is not None
        assert first.stdout.read() == "Enfin.\n"


def test_a_dead_driver_is_followed_at_once(until, loom, slow: Path) -> None:
    with typing(slow, "run", "lent", "Attends", "--session", "s") as first:
        until((slow / "parti").exists)
        first.kill()
        first.wait()
        (slow / "assez").touch()
        done = loom(slow, "resume", run_of(slow))
    assert (done.returncode, done.stdout) == (0, "Enfin.\n")
    assert "until" not in done.stderr


def run_of(folder: Path) -> str:
    """Id of the only run of the session."""
    listed = subprocess.run(
        [*LOOM, "sessions", "show", "s", "--json"], cwd=folder, capture_output=True, check=True
    )
    return listed.stdout.decode().split('"run_id": "')[1].split('"')[0]
