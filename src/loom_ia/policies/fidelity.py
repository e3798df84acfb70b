"""Whether what a text states is to be found where it should come from."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from itertools import combinations
from typing import Final

from loom_ia.policies.items import Item, Kind, items, number
from loom_ia.policies.spelling import Day, Spelling

NUMERIC: Final[frozenset[Kind]] = frozenset({"amount", "percentage", "number"})
STATED: Final[tuple[Kind, ...]] = (
    "amount",
    "date",
    "percentage",
    "reference",
    "email",
    "phone",
    "iban",
)
"""What a text answers for. Bare numbers are left out: most of them count things."""

_PRICED: Final[tuple[Kind, ...]] = ("amount", "number")
_CENT: Final = Decimal("0.01")
_HUNDRED: Final = Decimal(100)
_COUNT: Final = Decimal(10)
"""A bare whole number up to this one counts something, and needs no source."""
_OPERANDS: Final = 40
_SUBSCRIBER: Final = 9
"""Last digits of a telephone number that say whose it is."""


@dataclass(frozen=True, slots=True)
class Ungrounded:
    """Something that no source states."""

    item: Item
    looked: tuple[str, ...]
    """Names of the sources, in their order."""
    closest: str = ""
    """What the sources state that is most like it, as it was written there."""
    computed: str = ""
    """An operation on figures of the sources that gives it, which nobody but the model did."""


class Sources:
    """Texts that may be quoted, each with its name, and what they state."""

    def __init__(self, spelling: Spelling | None = None, *, region: str = "FR") -> None:
        self.spelling, self.region = spelling or Spelling(), region
        self._names: dict[str, None] = {}
        self._keys: dict[tuple[Kind, str], str] = {}
        self._numbers: dict[Decimal, list[Item]] = defaultdict(list[Item])
        self._days: list[tuple[Day, Item]] = []
        self._digits: set[str] = set()
        """Of everything that a telephone number may be hidden in."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sources, in the order in which they were added."""
        return tuple(self._names)

    def add(self, name: str, text: str) -> None:
        """Take what a text states; one that is JSON is read value by value, its keys too."""
        self._names.setdefault(name)
        for item in self.read(text):
            self._keys.setdefault((item.kind, item.value), item.text)
            for value in item.numbers:
                self._numbers[value].append(item)
            if item.day is not None:
                self._days.append((item.day, item))
            if item.kind in {"phone", "reference", "number"}:
                self._digits.add("".join(filter(str.isdigit, item.value)))

    def read(self, text: str) -> Iterator[Item]:
        """Items of a text, or of each value of a JSON one."""
        found = _parsed(text)
        if isinstance(found, dict | list):
            yield from self.inside(found)  # pyright: ignore[reportUnknownArgumentType] reason: JSON
        else:
            yield from items(text, self.spelling, region=self.region)

    def inside(self, value: object) -> Iterator[Item]:
        """Items of a JSON value."""
        for leaf in _leaves(value):
            if isinstance(leaf, str):
                yield from items(leaf, self.spelling, region=self.region)
            else:
                yield number(leaf, f"{leaf:f}")

    def states(self, item: Item) -> bool:
        """Whether a source states it, however it is spelled there."""
        if (item.kind, item.value) in self._keys:
            return True
        if item.kind in NUMERIC:
            return any(self._number(item, value) for value in item.numbers)
        if item.day is not None:
            return self._day(item.day)
        if item.kind == "reference":
            return item.value.isdigit() and Decimal(item.value) in self._numbers
        if item.kind == "phone":
            tail = item.value[-_SUBSCRIBER:]
            return any(digits.endswith(tail) for digits in self._digits)
        return False

    def _number(self, item: Item, value: Decimal) -> bool:
        if item.kind == "percentage":
            kinds: Sequence[Kind] = ("percentage", "number")
            return self._has(value, kinds, None) or self._has(value / _HUNDRED, ("number",), None)
        kinds = _PRICED if item.kind == "amount" else tuple(NUMERIC)
        if self._has(value, kinds, item.currency):
            return True
        if value > 0 and self._has(-value, kinds, item.currency):
            return True  # « une remise de 50 € » says what a tool gave as -50
        return value.as_tuple().exponent == -2 and any(  # noqa: PLR2004 - cents
            self._has(exact, kinds, item.currency) for exact in self._rounded(value)
        )

    def _rounded(self, value: Decimal) -> list[Decimal]:
        """Figures of the sources finer than a cent that are this one once rounded, half up."""
        return [
            exact
            for exact in self._numbers
            if _places(exact) > 2 and exact.quantize(_CENT, ROUND_HALF_UP) == value  # noqa: PLR2004 - cents
        ]

    def _has(self, value: Decimal, kinds: Iterable[Kind], currency: str | None) -> bool:
        return any(
            found.kind in kinds
            and (currency is None or found.currency in {None, currency})
            and not (found.measures and kinds is _PRICED)
            for found in self._numbers.get(value, ())
        )

    def _day(self, day: Day) -> bool:
        for known, _ in self._days:
            if known.month != day.month or (day.day is not None and known.day != day.day):
                continue
            if day.year in {None, known.year}:
                return True
            if known.year is None and self._year(day.year):
                return True
        return False

    def _year(self, year: int | None) -> bool:
        """Whether a year is written somewhere, be it with another day."""
        known = any(found.year == year for found, _ in self._days)
        return known or (year is not None and Decimal(year) in self._numbers)

    def closest(self, item: Item) -> str:
        """What is stated that is most like it; empty when nothing of its kind is."""
        if item.numbers:
            value = item.numbers[0]
            known = [
                (abs(other - value), found[0].text)
                for other, found in self._numbers.items()
                if found[0].kind in {item.kind, "number"} or item.kind == "number"
            ]
            return min(known)[1] if known else ""
        alike = [(value, text) for (kind, value), text in self._keys.items() if kind == item.kind]
        best = max(alike, key=lambda one: _likeness(one[0], item.value), default=None)
        return "" if best is None else best[1]

    def computed(self, item: Item) -> str:
        """An operation on two figures of the sources that gives a number; empty for none."""
        if item.kind == "percentage" or not item.numbers:
            return ""
        wanted = set(item.numbers)
        known = [(v, f[0]) for v, f in self._numbers.items() if v not in {0, 1}][:_OPERANDS]
        for (one, left), (two, right) in combinations(known, 2):
            for result, sign in _operations((one, left), (two, right)):
                if wanted & {result, result.quantize(_CENT, ROUND_HALF_UP)}:
                    return f"{left.text} {sign} {right.text}"
        return ""


def ungrounded(
    text: str | Mapping[str, object], sources: Sources, kinds: Iterable[Kind] = STATED
) -> tuple[Ungrounded, ...]:
    """What a text, or the values of a JSON object, states and no source does; each once."""
    asked = frozenset(kinds)
    found = sources.read(text) if isinstance(text, str) else sources.inside(text)
    missing = {
        (item.kind, item.value): item
        for item in found
        if item.kind in asked and not _counts(item) and not sources.states(item)
    }
    return tuple(
        Ungrounded(item, sources.names, sources.closest(item), sources.computed(item))
        for item in missing.values()
    )


def _counts(item: Item) -> bool:
    value = item.numbers[0] if item.numbers else None
    return item.kind == "number" and value is not None and 0 <= value <= _COUNT and not value % 1


def _parsed(text: str) -> object:
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None


def _leaves(value: object) -> Iterator[str | Decimal]:
    match value:
        case str():
            yield value
        case bool() | None:
            return
        case int() | float() | Decimal():
            exact = Decimal(str(value))
            if exact.is_finite():
                yield exact
        case Mapping():
            for key, below in value.items():  # pyright: ignore[reportUnknownVariableType] reason: JSON
                yield from _leaves(key)  # pyright: ignore[reportUnknownArgumentType] reason: JSON
                yield from _leaves(below)  # pyright: ignore[reportUnknownArgumentType] reason: JSON
        case list() | tuple():
            for below in value:  # pyright: ignore[reportUnknownVariableType] reason: JSON
                yield from _leaves(below)  # pyright: ignore[reportUnknownArgumentType] reason: JSON
        case _:
            return


def _places(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def _operations(
    left: tuple[Decimal, Item], right: tuple[Decimal, Item]
) -> Iterator[tuple[Decimal, str]]:
    (one, first), (two, second) = left, right
    if "percentage" in {first.kind, second.kind}:
        rate, base = (one, two) if first.kind == "percentage" else (two, one)
        part = base * rate / _HUNDRED
        yield part, "×"
        yield base + part, "+"
        yield base - part, "-"
        return
    yield one + two, "+"
    yield abs(one - two), "-"
    yield one * two, "×"


def _likeness(left: str, right: str) -> int:
    """Characters that two texts have in the same place."""
    return sum(a == b for a, b in zip(left, right, strict=False))
