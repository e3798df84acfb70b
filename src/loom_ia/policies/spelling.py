"""One value, many spellings: numbers and dates as French and English people write them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from loom_ia.policies.numerals import PHRASE, number_of

_UNIFIED: Final = {
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63"), "-"),
    **dict.fromkeys(map(ord, "\u2018\u2019\u02bc\u00b4`"), "'"),
    **dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad"), None),
}
_SPACES: Final = re.compile(r"[^\S\n\t]")

NUMBER: Final = (
    r"(?P<sign>[-+](?=\d))?"
    r"(?P<whole>\d{1,3}(?:(?P<sep>[ '.,])\d{3}(?:(?P=sep)\d{3})*)?(?!\d)|\d+)"
    r"(?:[.,](?P<part>\d+))?"
)
"""Pattern of a number; its groups are what `readings` takes."""
START: Final = r"(?:(?<=\dx)|(?<=\d\*)|(?<![\w.,']))"
"""Pattern of where a number may begin."""

_MONTHS: Final[Mapping[str, int]] = {
    word: month
    for month, words in enumerate(
        (
            "janvier january janv jan",
            "février fevrier february févr fevr fév fev feb",
            "mars march mar",
            "avril april avr apr",
            "mai may",
            "juin june jun",
            "juillet july juil jul",
            "août aout august aug",
            "septembre september sept sep",
            "octobre october oct",
            "novembre november nov",
            "décembre decembre december déc dec",
        ),
        1,
    )
    for word in words.split()
}
_WORDS: Final = frozenset({"may", "march"})
"""Months that are words when they have no capital."""
_MONTH: Final = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_DAY: Final = rf"(?:1er|\d{{1,2}}(?:st|nd|rd|th)?(?!\d)|{PHRASE})"
_YEAR: Final = r"(?:,? (?P<y>(?:19|20)\d\d)(?!\d|[.,]\d))"
_TIME: Final = r"(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)"
_NEAR: Final[Mapping[str, int]] = {
    "avant-hier": -2,
    "hier": -1,
    "yesterday": -1,
    "aujourd'hui": 0,
    "today": 0,
    "demain": 1,
    "tomorrow": 1,
    "après-demain": 2,
}
_DATES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<![\w-])(?P<y>\d{{4}})-(?P<m>\d{{1,2}})-(?P<d>\d{{1,2}}){_TIME}?(?![\w-])",
        r"(?<![\w/.-])(?P<a>\d{1,2})(?P<s>[/.-])(?P<b>\d{1,2})(?P=s)(?P<y>\d{4}|\d\d)(?![\w/-])",
        r"(?<=\ble |\bdu |\bau |\bon |\bby )(?P<a>\d{1,2})/(?P<b>\d{1,2})(?![\w/])",
        rf"(?<![\w€$£.,])(?P<day>{_DAY})(?: of)?[ -](?P<month>{_MONTH}){_YEAR}?",
        rf"(?<!\w)(?P<month>{_MONTH}) (?P<day>{_DAY}){_YEAR}?",
        rf"(?<!\w)(?P<month>{_MONTH}){_YEAR}",
        r"(?<![\w-])(?P<near>" + "|".join(_NEAR) + r")(?!\w)",
    )
)


def plain(text: str) -> str:
    """The text with one kind of space, dash, apostrophe and digit, whatever it was written with."""
    unified = unicodedata.normalize("NFKC", text.translate(_UNIFIED)).translate(_UNIFIED)
    return _SPACES.sub(" ", unified)


def readings(found: re.Match[str]) -> tuple[Decimal, ...]:
    """What a number may be worth: `1,250` and `1.250` have two readings, most have one."""
    whole, sep, part = found["whole"], found["sep"], found["part"]
    sign = "-" if found["sign"] == "-" else ""
    digits = re.sub(r"\D", "", whole)
    if part is not None:
        return (Decimal(f"{sign}{digits}.{part}"),)
    one_group = sep in {".", ","} and whole.count(sep) == 1
    if not one_group:
        return (Decimal(sign + digits),)
    decimal = Decimal(sign + whole.replace(",", "."))
    return (decimal,) if whole.startswith("0") else (Decimal(sign + digits), decimal)


@dataclass(frozen=True, slots=True)
class Spelling:
    """What dates depend on."""

    month_first: bool = False
    """True when `12/07/2026` is in December."""
    today: date | None = None
    """What « demain » is counted from; such words are no dates without it."""


@dataclass(frozen=True, slots=True)
class Day:
    """A date; what was not written is None."""

    year: int | None
    month: int
    day: int | None

    def __str__(self) -> str:
        year = "-" if self.year is None else f"{self.year:04}"
        return f"{year}-{self.month:02}" + (f"-{self.day:02}" if self.day is not None else "")


def dates(text: str, spelling: Spelling) -> Iterator[tuple[re.Match[str], Day]]:
    """Dates of a plain text; they may overlap, the first ones then hold."""
    for pattern in _DATES:
        for found in pattern.finditer(text):
            day = _day(found, spelling)
            if day is not None:
                yield found, day


def _day(found: re.Match[str], spelling: Spelling) -> Day | None:
    groups = found.groupdict()
    if (near := groups.get("near")) is not None:
        if spelling.today is None:
            return None
        at = spelling.today + timedelta(days=_NEAR[near.lower()])
        return Day(at.year, at.month, at.day)
    written = groups.get("y")
    year = None if written is None else int(written) + (2000 if len(written) == 2 else 0)  # noqa: PLR2004 - of two digits
    if (name := groups.get("month")) is not None:
        if name in _WORDS:
            return None
        day = groups.get("day")
        return _possible(year, _MONTHS[name.lower().rstrip(".")], _ordinal(day) if day else None)
    if (month := groups.get("m")) is not None:
        return _possible(year, int(month), int(groups["d"]))
    first, second = int(groups["a"]), int(groups["b"])
    if spelling.month_first:
        return _possible(year, first, second) or _possible(year, second, first)
    return _possible(year, second, first) or _possible(year, first, second)


def _ordinal(written: str) -> int:
    digits = re.match(r"\d+", written)
    return int(digits[0]) if digits else (number_of(written) or 0)


def _possible(year: int | None, month: int, day: int | None) -> Day | None:
    try:
        date(2024 if year is None else year, month, 1 if day is None else day)
    except ValueError:
        return None
    return Day(year, month, day)
