"""`tests/documents`: what was said, and a text where inventions stand between ⟦ ⟧."""

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from loom_ia.policies.fidelity import Sources, ungrounded
from loom_ia.policies.spelling import Spelling, plain

pytest.importorskip("phonenumbers")
pytest.importorskip("stdnum")

FOLDER = Path(__file__).parents[2] / "documents"
PLANTED = re.compile(r"⟦(.+?)⟧")
TODAY = date(2026, 12, 7)


@dataclass
class Measure:
    lines: int = 0
    planted: int = 0
    caught: int = 0
    wrong: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()

    @property
    def precision(self) -> float:
        return self.caught / (self.caught + len(self.wrong))

    @property
    def recall(self) -> float:
        return self.caught / self.planted


def read(path):
    """Sources of a document, and its lines."""
    sources = Sources(Spelling(today=TODAY))
    for part in path.read_text(encoding="utf-8").split("=== ")[1:]:
        name, _, body = part.partition("\n")
        if name == "text":
            return sources, [line for line in body.splitlines() if line.strip()]
        sources.add(name, body.strip())
    raise AssertionError(path)


def measure(paths):
    found = Measure()
    for path in paths:
        sources, lines = read(path)
        for line in lines:
            _line(found, sources, line, path.name)
    return found


def _line(found, sources, line, name):
    planted = [plain(text) for text in PLANTED.findall(line)]
    flagged = [one.item.text for one in ungrounded(PLANTED.sub(r"\1", line), sources)]
    left = list(planted)
    for text in flagged:
        hit = next((p for p in left if text in p or p in text), None)
        if hit is None:
            found.wrong += (f"{name}: {text}",)
        else:
            left.remove(hit)
            found.caught += 1
    found.lines += 1
    found.planted += len(planted)
    found.missed += tuple(f"{name}: {text}" for text in left)


def test_the_inventions_of_two_hundred_lines_are_found_and_little_else():
    found = measure(sorted(FOLDER.glob("*.txt")))

    assert found.lines >= 200
    assert found.planted >= 70
    assert found.wrong == ()
    # A figure of the sources that is used for something else is out of reach of any comparison.
    assert found.missed == ("12_subscription.en.txt: $2,484.00 ",)
    assert found.precision == 1.0
    assert found.recall == pytest.approx(72 / 73)
