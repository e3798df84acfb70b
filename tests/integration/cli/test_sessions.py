"""`loom sessions`: pages, exports that are whole or absent, deletions that ask first."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def talks(loom: Callable, tutorial: Path) -> Path:
    """Three conversations of the tutorial's agent."""
    for name in ("durand", "martin", "-x"):
        assert loom(tutorial, "run", "devis", "Quel prix ?", f"--session={name}").returncode == 0
    return tutorial


def page(stderr: str) -> list[str]:
    """The command that a list says to type for its next page."""
    [line] = [line for line in stderr.splitlines() if "loom sessions" in line]
    return line.partition("loom ")[2].split()


def test_each_page_says_how_to_type_the_next_one(loom, talks):
    seen, words = [], ["sessions", "list", "--limit", "1"]
    while True:
        done = loom(talks, *words)
        head, *rows = done.stdout.splitlines()
        assert head.split() == ["Session", "Début", "Dernier", "événement", "Runs", "En", "cours"]
        seen += [row.split()[0] for row in rows]
        if not done.stderr:
            break
        words = page(done.stderr)
    assert seen == ["-x", "martin", "durand"]
    listed = json.loads(loom(talks, "sessions", "list", "--json").stdout)
    assert [s["session_id"] for s in listed["sessions"]] == seen


def test_a_conversation_is_shown_in_the_language_of_the_reader(loom, talks):
    loom(talks, "run", "devis", "Et à 20 % ?", "--session", "durand")
    french = loom(talks, "sessions", "show", "durand", "--limit", "1")
    assert "Session durand, depuis le " in french.stderr
    assert "2 run(s), dont 0 non terminé(s)" in french.stderr
    assert "completed" in french.stdout
    second = loom(talks, *page(french.stderr))
    assert len(second.stdout.splitlines()) == 2
    english = loom(talks, "sessions", "show", "--", "-x", lang="en")
    assert english.stdout.split()[:3] == ["Run", "Agent", "Started"]
    shown = json.loads(loom(talks, "sessions", "show", "durand", "--json").stdout)
    assert len(shown["lines"]) == 2
    missing = loom(talks, "sessions", "show", "nulle-part")
    assert (missing.returncode, missing.stdout) == (2, "")


def test_an_export_goes_to_a_file_that_is_whole_or_absent(loom, talks, tmp_path):
    written = loom(talks, "sessions", "export", "durand").stdout
    out = tmp_path / "durand.jsonl"
    out.write_text("what was there")
    for words in (("nulle-part",), ("durand", "--output", str(tmp_path / "none" / "x"))):
        options = () if len(words) > 1 else ("--output", str(out))
        assert loom(talks, "sessions", "export", *words, *options).returncode > 0
        assert out.read_text() == "what was there"
    assert loom(talks, "sessions", "export", "durand", "--output", str(out)).stdout == ""
    assert out.read_text() == written
    assert all(json.loads(line) for line in written.splitlines())
    assert "end" in json.loads(written.splitlines()[-1])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["durand.jsonl", "mon-agent"]
    narrow = loom(talks, "sessions", "export", "durand", PYTHONIOENCODING="ascii")
    assert narrow.stdout == written


def test_nothing_is_erased_without_somebody_to_confirm(loom, talks):
    asked = loom(talks, "sessions", "delete", "--", "-x")
    assert asked.returncode == 2
    assert asked.stderr.rstrip().endswith("loom sessions delete --yes -- -x")
    assert (talks / "data/default/-x.jsonl").exists()
    typed = asked.stderr.split("loom ")[1].split()
    done = loom(talks, *typed)
    assert (done.returncode, done.stdout.startswith("La session -x a été effacée")) == (0, True)
    assert not (talks / "data/default/-x.jsonl").exists()
    short = json.loads(loom(talks, "sessions", "delete", "-y", "martin", "--json").stdout)
    assert short["error"]["code"] == "usage"
    again = json.loads(loom(talks, "sessions", "delete", "--yes", "martin", "--json").stdout)
    assert (again["session_id"], again["by"].startswith("cli:")) == ("martin", True)
    late = loom(talks, "run", "devis", "Encore", "--session", "martin")
    assert late.returncode == 2
    assert "a été effacée par cli:" in late.stderr


@pytest.mark.parametrize(("answer", "erased"), [("non", False), ("", False), ("oui", True)])
def test_a_terminal_is_asked(talks, answer, erased):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "loom_ia.access.cli.main", "sessions", "delete", "durand"]
    environ = {**os.environ, "LOOM_LANG": "fr"}
    process = subprocess.Popen(
        command, cwd=talks, env=environ, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    said = b""
    while b"[o/N]" not in said:
        said += os.read(ours, 1000)
    assert b"Session durand" in said
    os.write(ours, f"{answer}\n".encode())
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert ("effacée" in out.decode()) is erased
    assert (talks / "data/default/durand.jsonl").exists() is not erased
    os.close(ours)
