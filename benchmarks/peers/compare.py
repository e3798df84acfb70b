"""Install each peer apart, run all of them in turns beside ours, print one table: `make peers`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
VENVS = HERE.parents[1] / ".venv" / "peers"
ROUNDS = int(os.environ.get("ROUNDS", "3"))
JOBS = {
    "B": "one run without tools, nothing durable (µs)",
    "C": "one turn of ten, nothing durable (µs)",
    "D": "one turn of ten, every step durable (µs)",
    "F": "200 runs of ten turns at once, model 50 ms (s)",
}
OURS = "loom"


def python(peer: str) -> str:
    """Interpreter of a peer, installed at its first use and when its requirements change."""
    if peer == OURS:
        return sys.executable
    requirements = HERE / peer / "requirements.txt"
    place = VENVS / peer
    mark = place / "requirements.txt"
    if not mark.exists() or mark.read_text() != requirements.read_text():
        venv.create(place, clear=True, with_pip=True)
        pip = [str(place / "bin/python"), "-m", "pip", "install", "-q", "-r", str(requirements)]
        subprocess.run(pip, check=True)
        mark.write_text(requirements.read_text())
    return str(place / "bin/python")


def figures(peer: str, job: str) -> dict[str, float]:
    """What one process of a peer measured; nothing for a job it cannot do."""
    command = [python(peer), str(HERE / peer / "peer.py"), job]
    environ = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{peer}, job {job}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """One line per peer: the median of each job, and how many times ours it is."""
    peers = sorted(path.parent.name for path in HERE.glob("*/peer.py"))
    peers.sort(key=lambda peer: peer != OURS)
    jobs = os.environ.get("JOBS", "".join(JOBS))
    seen: dict[tuple[str, str], list[float]] = {}
    for _ in range(ROUNDS):
        for job in jobs:
            for peer in peers:
                for found, value in figures(peer, job).items():
                    seen.setdefault((peer, found), []).append(value)
    for job in jobs:
        print(f"{job}: {JOBS[job]}")
        ours = median(seen[OURS, job])
        for peer in peers:
            if (peer, job) in seen:
                value = median(seen[peer, job])
                print(f"   {peer:16} {value:>10,.4g}   {value / ours:6.2f} ×")


if __name__ == "__main__":
    main()
