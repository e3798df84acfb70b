"""Completion, as the shells ask for it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HIDDEN = """
import sys

sys.modules["argcomplete"] = None
"""


def completed(folder: Path, line: str) -> set[str]:
    """What bash would offer behind a line, asked as its script asks: on descriptor 8."""
    environ = {
        **os.environ,
        "LOOM_LANG": "fr",
        "_ARGCOMPLETE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
        "_ARGCOMPLETE_SHELL": "bash",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
    }
    loom = f"{sys.executable} -m loom_ia.access.cli.main"
    words = ["bash", "-c", f"{loom} 8>&1 9>&2 >/dev/null"]
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, check=True)
    return {word.strip() for word in done.stdout.decode().split("\v") if word.strip()}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script(loom, tmp_path: Path, shell: str) -> None:
    told = loom(tmp_path, "completion", shell)
    assert (told.returncode, told.stderr) == (0, "")
    assert "_ARGCOMPLETE" in told.stdout
    coded = json.loads(loom(tmp_path, "completion", shell, "--json").stdout)
    assert coded["script"].strip() == told.stdout.strip()
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=told.stdout, text=True, check=True)


def test_commands_options_and_choices_are_completed(tmp_path: Path) -> None:
    assert {"init", "inspect"} == completed(tmp_path, "loom in")
    assert {"list", "show", "export", "delete", "repair"} <= completed(tmp_path, "loom sessions ")
    assert {"--session", "--stream"} == completed(tmp_path, "loom run --s")
    assert {"jour"} == completed(tmp_path, "loom report --periode j")
    assert list(tmp_path.iterdir()) == []


def test_the_missing_extra_is_named_and_nothing_is_run(loom, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDDEN, encoding="utf-8")
    for variables in ({}, {"_ARGCOMPLETE": "1"}):
        refused = loom(tmp_path, "completion", "bash", PYTHONPATH=str(tmp_path), **variables)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "loom-ia[completion]" in refused.stderr
