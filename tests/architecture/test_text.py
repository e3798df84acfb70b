"""Nothing committed says on which machine, or from which registry, it was made."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Each pattern is written so that it does not match its own line.
TRACES = re.compile(
    r"p[y]pi\.org|python[h]osted\.org|registry\.[n]pmjs|n[p]mjs\.com|(?:deb|security)\.deb[i]an"
    r"|/h[o]me/\w|/U[s]ers/\w|/r[o]ot/|/w[o]rk/|/f[a]rm/|/tmp/b[a]sh_jobs"
)
LOCKS = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml"}


def committed() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def traces(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    return [
        f"{path.relative_to(ROOT)}:{number} {found.group()}"
        for number, line in enumerate(text.splitlines(), start=1)
        for found in TRACES.finditer(line)
    ]


def test_no_committed_file_names_a_registry_or_a_path_of_a_machine():
    paths = [path for path in committed() if path.is_file()]
    assert Path(__file__).resolve() in paths
    assert [trace for path in paths for trace in traces(path)] == []


def test_no_lock_file_is_committed():
    assert [path for path in committed() if path.name in LOCKS] == []
