"""What a text states that can be checked: amounts, dates, percentages, references, addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from importlib import import_module
from typing import Final, Literal, Protocol, get_args

from loom_ia.policies.numerals import PHRASE, number_of
from loom_ia.policies.spelling import NUMBER, START, Day, Spelling, dates, plain, readings

Kind = Literal["amount", "date", "percentage", "reference", "email", "phone", "iban", "number"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_CURRENCIES: Final[Mapping[str, str]] = {
    word: code
    for code, words in {
        "EUR": "€ eur euro euros",
        "USD": "$ us$ usd dollar dollars",
        "GBP": "£ gbp pound pounds",
        "CHF": "chf",
    }.items()
    for word in words.split()
}
_BEFORE: Final = r"(?<!\d)(?<!\d )(?P<before>US\$|[€$£]|\b(?:EUR|USD|GBP|CHF))"
_AFTER: Final = (
    r"(?P<after>[€$£]|(?:EUR|USD|GBP|CHF|euros?|dollars?|pounds?)(?![A-Za-z]))"
    r"(?P<cents>\d\d(?!\d))?"
)
_TIMES: Final[Mapping[str, int]] = {
    "k": 1000,
    "m": 1_000_000,
    "million": 1_000_000,
    "millions": 1_000_000,
}
_SCALE: Final = r"(?: ?(?P<scale>[kKM]|millions?)(?![A-Za-z])(?: (?:de|d'|of))?)?"
_EMAIL: Final = re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+")
_IBAN: Final = re.compile(
    r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"
)
_PHONE: Final = re.compile(
    r"(?<![\w.,/-])(?:(?:\+|00)[1-9][\d .()-]{6,18}\d"
    r"|\(?0\d(?P<s>[ .-]?)\)?\d{2}(?:(?P=s)\d{2}){3}"
    r"|0\d{2,4} \d{3,4} \d{3,4}|\(\d{3}\) ?\d{3}-\d{4}|\d{3}-\d{3}-\d{4})(?![\w-]|[.,]\d)"
)
_PERCENTAGE: Final = re.compile(
    rf"{START}{NUMBER} ?(?:%|pour ?cent\b|per ?cent\b|pct\b)", re.IGNORECASE
)
_AMOUNTS: Final = (
    re.compile(rf"{_BEFORE} ?{NUMBER}{_SCALE}(?!\d)", re.IGNORECASE),
    re.compile(rf"{START}{NUMBER}{_SCALE} ?{_AFTER}", re.IGNORECASE),
    re.compile(rf"{START}{NUMBER} ?(?:HT|TTC)\b"),
)
_WORDED: Final = re.compile(
    rf"(?<![\w-])(?<!\d )(?P<words>{PHRASE}) (?:d')?(?P<after>euros?|dollars?|pounds?)"
    rf"(?:(?: (?:et|and))? (?P<cents>{PHRASE}) (?:centimes?|cents?|pence))?(?!\w)",
    re.IGNORECASE,
)
_TWO_PLACES: Final = re.compile(
    rf"{START}{NUMBER}(?<=[.,]\d\d)(?![\d%]|[.,]\d| ?(?:m|km|cm|mm|kg|g|l|h|cl|kwh|m2|m3)\b)",
    re.IGNORECASE,
)
_COMPANY: Final = re.compile(
    r"(?<![\w.,])(?:\d{3} ?\d{3} ?\d{3} ?\d{5}|(?<=siren )\d{3} \d{3} \d{3}|(?<=siren : )"
    r"\d{3} \d{3} \d{3}|\d{9,})(?![\d.,]\d|\d)",
    re.IGNORECASE,
)
_MARKED: Final = re.compile(
    r"(?:\bn° ?|\bno\. ?|\bnum[ée]ro |\br[ée]f(?:[ée]rence|\.)? ?:? ?|#"
    r"|\b(?:order|invoice|quote|facture|devis|commande|dossier|ticket|contrat) )"
    r"(?P<ref>[A-Za-z]{0,6}[-/]?\d[\w/-]*\d)(?![.,]\d| ?[€$£%]| ?(?:euros?|eur)\b)",
    re.IGNORECASE,
)
_YEARLY: Final = re.compile(r"(?<![\w/-])(?:(?:19|20)\d\d[-/]\d{2,}|\d{2,}[-/]0\d+)(?![\w/-])")
_TOKEN: Final = re.compile(r"(?<![\w@.-])[A-Za-z0-9]+(?:[-_/.][A-Za-z0-9]+)*(?![\w@])")
_NO_REFERENCE: Final = re.compile(
    r"\d+(?:[.,]\d+)?[a-zA-Zµ]{1,4}\d?"  # a quantity with its unit, an ordinal
    r"|\d{1,2}[hH]\d{0,2}(?:[-/]\d{1,2}[hH]?\d{0,2})?|\d+[hjHJ]/\d+"  # a time
    r"|\d+x\d+(?:x\d+)?[a-zA-Z]{0,3}"  # dimensions
    r"|\d+-[A-Za-z]+|[a-z]+-\d{1,2}|[A-Za-z]{1,5}\d{1,2}|(?:19|20)\d\d[-/]?[a-z]+"
)
_NUMBER: Final = re.compile(rf"{START}{NUMBER}(?![A-Za-z\d]|[.,]\d)")
_UNIT: Final = re.compile(
    r" ?(?:jours?|heures?|h|minutes?|min|mois|semaines?|ans?|années?|days?|hours?|months?|weeks?"
    r"|years?|km|cm|mm|m|m2|m3|kg|g|l|kwh|w|kw|v|a)(?![A-Za-z])",
    re.IGNORECASE,
)
_FEW_DIGITS: Final = 3
_PREFIX: Final = 4
"""Letters of the longest prefix of a short reference: `CMD-12`, and not `COVID-19`."""
_SHORTEST_IBAN: Final = 15


@dataclass(frozen=True, slots=True)
class Item:
    """Something stated."""

    kind: Kind
    text: str
    """As it was written, but for the kinds of spaces, dashes and digits."""
    value: str
    """One spelling for all its spellings; of a number with two readings, the first."""
    numbers: tuple[Decimal, ...] = ()
    """Every reading of a number."""
    currency: str | None = None
    day: Day | None = None
    measures: bool = False
    """True of a bare number that a unit of time or size follows: it is no price."""


@dataclass(slots=True)
class _Text:
    """A plain text, and which of its parts are already part of an item."""

    text: str
    items: list[tuple[int, Item]] = field(default_factory=list[tuple[int, Item]])
    taken: bytearray = field(init=False)

    def __post_init__(self) -> None:
        self.taken = bytearray(len(self.text))

    def free(self, start: int, end: int) -> bool:
        return not any(self.taken[start:end])

    def take(self, start: int, end: int, item: Item) -> None:
        if self.free(start, end):
            self.taken[start:end] = b"\x01" * (end - start)
            self.items.append((start, item))


def items(text: str, spelling: Spelling | None = None, *, region: str = "FR") -> tuple[Item, ...]:
    """Everything checkable that a text states, in its order; no part of it is in two items.

    `region`: country, in two letters, of telephone numbers written without theirs.
    """
    left = _Text(plain(text))
    for found in _EMAIL.finditer(left.text):
        address = found[0].rstrip(".-")
        left.take(*found.span(), Item("email", address, address.casefold()))
    _ibans(left)
    _phones(left, region)
    for found, day in dates(left.text, spelling or Spelling()):
        left.take(*found.span(), Item("date", found[0], str(day), day=day))
    _company_numbers(left)
    for found in _PERCENTAGE.finditer(left.text):
        left.take(*found.span(), _numeric("percentage", found))
    _amounts(left)
    _references(left)
    for found in _TWO_PLACES.finditer(left.text):
        left.take(*found.span(), _numeric("amount", found))
    for found in _NUMBER.finditer(left.text):
        measures = _UNIT.match(left.text, found.end()) is not None
        left.take(*found.span(), replace(_numeric("number", found), measures=measures))
    return tuple(item for _, item in sorted(left.items, key=lambda one: one[0]))


def number(value: Decimal, text: str, kind: Kind = "number") -> Item:
    """A number that needs no reading."""
    return Item(kind, text, _written(value), (value,))


def _written(value: Decimal) -> str:
    return f"{value.normalize():f}"


def _numeric(kind: Kind, found: re.Match[str], currency: str | None = None, times: int = 1) -> Item:
    values = tuple(value * times for value in readings(found))
    value = f"{_written(values[0])} {currency or ''}".strip()
    return Item(kind, found[0].strip(), value, values, currency)


def _amounts(left: _Text) -> None:
    for found in _WORDED.finditer(left.text):
        value = number_of(found["words"])
        cents = number_of(found["cents"]) if found["cents"] else 0
        if value is None or cents is None:
            continue
        total = Decimal(value) + Decimal(cents) / 100
        currency = _CURRENCIES[found["after"].lower()]
        item = Item("amount", found[0], f"{_written(total)} {currency}", (total,), currency)
        left.take(*found.span(), item)
    for pattern in _AMOUNTS:
        for found in pattern.finditer(left.text):
            groups = found.groupdict()
            written = groups.get("before") or groups.get("after")
            currency = _CURRENCIES[written.lower()] if written else None
            times = _TIMES.get((groups.get("scale") or "").lower(), 1)
            left.take(*found.span(), _with_cents(found, currency, times))


def _with_cents(found: re.Match[str], currency: str | None, times: int) -> Item:
    item = _numeric("amount", found, currency, times)
    cents = found.groupdict().get("cents")
    if cents is None or found["part"] is not None:
        return item
    total = item.numbers[0] + Decimal(cents) / 100  # `12€50`
    return Item("amount", item.text, f"{_written(total)} {currency}", (total,), currency)


def _company_numbers(left: _Text) -> None:
    for found in _COMPANY.finditer(left.text):
        left.take(*found.span(), Item("reference", found[0], found[0].replace(" ", "")))


def _references(left: _Text) -> None:
    for found in _MARKED.finditer(left.text):
        written = found["ref"]
        digits = sum(c.isdigit() for c in written)
        year = re.fullmatch(r"(?:19|20)\d\d", written) and found[0][0].isalpha()
        if digits >= _FEW_DIGITS and not year and left.free(*found.span("ref")):
            left.take(*found.span("ref"), _reference(written))
    for found in _YEARLY.finditer(left.text):
        left.take(*found.span(), _reference(found[0]))
    for found in _TOKEN.finditer(left.text):
        if _named(found[0]):
            left.take(*found.span(), _reference(found[0]))


def _reference(written: str) -> Item:
    return Item("reference", written, re.sub(r"[^A-Z0-9]", "", written.upper()))


def _named(token: str) -> bool:
    """True for a token that names something: letters and figures, and no quantity."""
    digits = sum(c.isdigit() for c in token)
    letters = [c for c in token if c.isalpha()]
    if not digits or not letters or _NO_REFERENCE.fullmatch(token):
        return False
    parted = any(c in "-_/" for c in token) and letters[0].isupper()
    return digits >= _FEW_DIGITS or (parted and digits > 1 and len(letters) <= _PREFIX)


class _Parsed(Protocol):
    @property
    def country_code(self) -> int | None: ...
    @property
    def national_number(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class _Libraries:
    """What two libraries know of telephones and bank accounts; loaded when a text is first read."""

    parse: Callable[[str, str], _Parsed]
    unparsable: type[Exception]
    valid: Callable[[str], bool]
    """Tells whether the check digits of an IBAN are right."""


@cache
def libraries() -> _Libraries:
    """The two libraries.

    Raises:
        ModuleNotFoundError: one is not installed; the extra `grounded` brings both.

    """
    phones, ibans = import_module("phonenumbers"), import_module("stdnum.iban")
    return _Libraries(phones.parse, phones.NumberParseException, ibans.is_valid)


def _ibans(left: _Text) -> None:
    for found in _IBAN.finditer(left.text):
        written = _cut(found[0])
        value = re.sub(r"[ -]", "", written)
        if len(value) >= _SHORTEST_IBAN and sum(c.isdigit() for c in value) > _SHORTEST_IBAN / 2:
            start = found.start()
            left.take(start, start + len(written), Item("iban", written, value))


def _cut(written: str) -> str:
    """An IBAN without the word in capitals that may follow it."""
    for end in _ends(written):
        if libraries().valid(written[:end]):
            return written[:end]
    return re.sub(r" [A-Z]{1,4}$", "", written)


def _ends(written: str) -> Iterator[int]:
    yield len(written)
    yield from (i for i in range(len(written) - 1, 0, -1) if written[i] in " -")


def _phones(left: _Text, region: str) -> None:
    known = libraries()
    for found in _PHONE.finditer(left.text):
        written = found[0]
        dialled = re.sub(r"^00", "+", written)
        try:
            parsed = known.parse(dialled, region)
        except known.unparsable:
            continue
        value = f"+{parsed.country_code}{parsed.national_number}"
        left.take(*found.span(), Item("phone", written, value))
