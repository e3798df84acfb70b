"""What becomes of a call whatever it declares and whatever happens to it: cases S25 and S85.

Every case is driven by real processes; a third one counts the effects in its own file.
"""

import json
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

WORKERS = Path(__file__).parent / "workers"
KILLED = ("before", "during", "after", "recorded")
STOPPED = ("timeout", "cancel", "lease")
DECLARED = list(
    product((None, "none", "reversible", "irreversible"), (False, True), ("error", "pause"))
)
UNKNOWN = "Issue inconnue"


@pytest.fixture(scope="module", params=["jsonl", pytest.param("sqlite", marks=pytest.mark.slow)])
def fates(request, tmp_path_factory):
    """Tell what became of each case of some moments, and how often each acted."""
    folder = tmp_path_factory.mktemp("fates")
    address = str(folder / "ledger.sock")
    commands = [
        ("ledger.py", address, str(folder / "ledger")),
        ("fates.py", str(folder), address, request.param),
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    started = []
    for name, *arguments in commands:
        started.append(subprocess.Popen([sys.executable, WORKERS / name, *arguments], **pipes))
        if name == "ledger.py":
            assert started[0].stdout.readline() == b"ready\n"

    def ask(case):
        started[1].stdin.write(json.dumps(case).encode() + b"\n")
        started[1].stdin.flush()
        answer = json.loads(started[1].stdout.readline())
        return answer, Counter((folder / "ledger").read_text().split())[case["run"]]

    yield ask
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def case_of(moment, declared):
    side_effects, idempotent, on_unknown = declared
    return {
        "run": f"{moment}-{side_effects}-{idempotent}-{on_unknown}",
        "moment": moment,
        "side_effects": side_effects,
        "idempotent": idempotent,
        "on_unknown": on_unknown,
    }


def repeatable(case):
    return case["side_effects"] == "none" or case["idempotent"]


def left_in_doubt(case, last, acted, *, reason):
    """The call left and nobody knows: it is not launched again, and never said to have failed."""
    assert last["launches"] == 1
    assert acted <= 1
    assert last["unknown"] == reason
    if case["on_unknown"] == "pause":
        assert (last["status"], last["why"], last["text"]) == ("paused", "unknown", None)
    else:
        assert last["status"] == "completed"
        assert last["text"].startswith(UNKNOWN)


@pytest.mark.parametrize("declared", DECLARED, ids=str)
@pytest.mark.parametrize("moment", KILLED)
def test_a_killed_call_is_made_again_only_where_that_does_no_harm(fates, moment, declared):
    case = case_of(moment, declared)
    answer, acted = fates(case)
    last = answer["last"]
    assert answer["killed"]
    if moment in {"before", "recorded"}:
        assert (last["status"], last["text"], last["launches"], acted) == (
            "completed",
            "fait",
            1,
            1,
        )
    elif repeatable(case):
        assert (last["status"], last["text"], last["launches"]) == ("completed", "fait", 2)
        assert acted == (2 if moment == "after" else 1)
    else:
        assert acted == (moment == "after")
        left_in_doubt(case, last, acted, reason=[])


@pytest.mark.parametrize("declared", DECLARED, ids=str)
@pytest.mark.parametrize("moment", STOPPED)
def test_a_stopped_call_has_an_unknown_outcome_unless_repeating_it_does_no_harm(
    fates, moment, declared
):
    case = case_of(moment, declared)
    answer, acted = fates(case)
    last = answer["last"]
    assert not answer["killed"]
    if moment == "cancel":
        assert (last["status"], last["launches"], acted) == ("cancelled", 1, 1)
        assert last["unknown"] == ["cancelled"]
    elif not repeatable(case):
        assert acted == 1
        left_in_doubt(case, last, acted, reason=["timeout"] if moment == "timeout" else [])
    elif moment == "timeout":
        assert (last["status"], last["launches"], acted) == ("completed", 1, 1)
        assert last["text"] == "L'outil n'a pas répondu en 0.05 s."
    else:
        assert (last["status"], last["text"], last["launches"], acted) == (
            "completed",
            "fait",
            2,
            2,
        )
