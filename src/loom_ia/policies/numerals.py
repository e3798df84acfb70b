"""Numbers written in words, in French and in English."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

_SMALL: Final[Mapping[str, int]] = {
    word: value
    for value, words in {
        0: "zero",
        1: "un une one first premier",
        2: "deux two second",
        3: "trois three third",
        4: "quatre four fourth",
        5: "cinq five fifth",
        6: "six sixth",
        7: "sept seven seventh",
        8: "huit eight eighth",
        9: "neuf nine ninth",
        10: "dix ten tenth",
        11: "onze eleven eleventh",
        12: "douze twelve twelfth",
        13: "treize thirteen thirteenth",
        14: "quatorze fourteen fourteenth",
        15: "quinze fifteen fifteenth",
        16: "seize sixteen sixteenth",
        17: "seventeen seventeenth",
        18: "eighteen eighteenth",
        19: "nineteen nineteenth",
        20: "vingt vingts twenty twentieth",
        30: "trente thirty thirtieth",
        40: "quarante forty",
        50: "cinquante fifty",
        60: "soixante sixty",
        70: "septante seventy",
        80: "huitante octante eighty",
        90: "nonante ninety",
    }.items()
    for word in words.split()
}
_HUNDREDS: Final = frozenset({"cent", "cents", "hundred"})
_SCALES: Final[Mapping[str, int]] = {
    "mille": 1000,
    "thousand": 1000,
    "million": 1_000_000,
    "millions": 1_000_000,
}
_LINKS: Final = frozenset({"et", "and"})

_SPELLED: Final = {"zero": "z[ée]ro"}
WORDS: Final = "|".join(
    sorted(
        (_SPELLED.get(word, word) for word in (*_SMALL, *_HUNDREDS, *_SCALES)),
        key=len,
        reverse=True,
    )
)
PHRASE: Final = rf"(?:{WORDS})\b(?:[ -](?:(?:et|and)[ -])?(?:{WORDS})\b)*"
"""Pattern of a number in words, any case."""


def number_of(words: str) -> int | None:
    """Value of a number in words; None for anything else."""
    total, part, seen = 0, 0, False
    for word in re.split(r"[ -]+", _bare(words)):
        if word in _LINKS and seen:
            continue
        seen = True
        if word in _HUNDREDS:
            part = max(part, 1) * 100
        elif word in _SCALES:
            total, part = total + max(part, 1) * _SCALES[word], 0
        elif word in _SMALL:
            part = _joined(part, _SMALL[word])
        else:
            return None
    return total + part if seen else None


def _joined(part: int, value: int) -> int:
    """A number below a thousand and one more word: `quatre-vingt` is a product."""
    fourscore = value == _SMALL["vingt"] and part % 100 == _SMALL["quatre"]
    return part + (80 - 4 if fourscore else value)


def _bare(words: str) -> str:
    """Without case nor accents."""
    split = unicodedata.normalize("NFD", words.lower())
    return "".join(c for c in split if not unicodedata.combining(c))
