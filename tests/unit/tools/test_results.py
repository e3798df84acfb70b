"""What a model reads of a result."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum

import pytest
from pydantic import BaseModel

from loom_ia.core.ports import ToolError
from loom_ia.tools import Image
from loom_ia.tools.results import Picture, ToolResultUnreadableError, parts_of

GIF = b"GIF89a" + b"\0" * 4


class Total(BaseModel):
    ttc: Decimal
    le: date


@dataclass
class Point:
    x: int
    day: date


class Colour(Enum):
    RED = "rouge"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("déjà", "déjà"),
        ("", ""),
        ({"montant_ht": 1250.0, "tva": 125.0}, '{"montant_ht": 1250.0, "tva": 125.0}'),
        ({"é": [1, None, True]}, '{"é": [1, null, true]}'),
        ([], "[]"),
        (["a", "b"], '["a", "b"]'),
        ((1, 2), "[1, 2]"),
        (3, "3"),
        (2.5, "2.5"),
        (True, "true"),
        (None, "null"),
        (Total(ttc=Decimal("1.50"), le=date(2026, 1, 2)), '{"ttc": "1.50", "le": "2026-01-02"}'),
        (Point(1, date(2026, 1, 2)), '{"x": 1, "day": "2026-01-02"}'),
        ([Point(1, date(2026, 1, 2))], '[{"x": 1, "day": "2026-01-02"}]'),
        ({"c": Colour.RED, "s": {1}}, '{"c": "rouge", "s": [1]}'),
        ({Colour.RED: 1, date(2026, 1, 2): 2}, '{"rouge": 1, "2026-01-02": 2}'),
    ],
)
def test_a_result_is_read_as_text_or_json(result, text):
    assert parts_of(result) == (text,)


def recursive() -> list[object]:
    ring: list[object] = []
    ring.append(ring)
    return ring


@pytest.mark.parametrize("result", [float("nan"), {"x": object()}, b"bytes", recursive()])
def test_what_cannot_be_json_is_unreadable_and_no_refusal_to_act(result):
    with pytest.raises(ToolResultUnreadableError, match="l'appel a eu lieu") as caught:
        parts_of(result)
    assert not isinstance(caught.value, ToolError)


def test_the_reason_can_be_in_english():
    with pytest.raises(ToolResultUnreadableError, match="the call took place"):
        parts_of(float("nan"), "en")


def test_a_list_with_an_image_is_shown_piece_by_piece():
    found = parts_of(["a", Image(GIF), 3])
    assert found == ("a", Picture(GIF, "image/gif"), "3")


@pytest.mark.parametrize("data", [b"", b"plain", b"%PDF-1.7"])
def test_an_image_of_no_known_type_is_unreadable(data):
    with pytest.raises(ToolResultUnreadableError, match="ni JPEG, ni PNG"):
        parts_of(Image(data, "image/png"))
