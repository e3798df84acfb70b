from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.config.errors import ConfigError, Place
from loom_ia.config.source import load_source, parse

REFUSED = [
    ("a:\n\tb: 1\n", 2, 1, "tab used for indentation; use spaces"),
    ("a: 1\nè: {b: 1, b: 2}\n", 2, 11, "è.b: key already given on line 2; keep one"),
    ("a: 1\nb: 2\na: 3\n", 3, 1, "a: key already given on line 1; keep one"),
    ("a: &x 1\n", 1, 4, "a: anchor '&x' is not accepted; remove it"),
    ("&x a: 1\n", 1, 1, "anchor '&x' is not accepted; remove it"),
    ("a: *x\n", 1, 4, "a: alias '*x' is not accepted; repeat the value"),
    ("<<: {a: 1}\n", 1, 1, "merge key '<<' is not accepted; repeat the keys"),
    ("a: !!python/object:os.system 1\n", 1, 4, "is not accepted; remove it"),
    ("1: a\n", 1, 1, "key 1 is not a text; put it between quotes"),
    ("true: a\n", 1, 1, "key true is not a text; put it between quotes"),
    ("? [a]\n: 1\n", 1, 3, "a key must be a text"),
    ("a: .nan\n", 1, 4, "a: '.nan' is not a finite number; write one"),
    ("a: b: c\n", 1, 5, "unexpected ':'; check the indentation"),
    ("a: @x\n", 1, 4, "a text cannot start with '@'; put it between quotes"),
    ("a: [1, 2\n", 2, 1, "a bracket is never closed"),
    ('a: "x\n', 2, 1, "a quote is never closed; close it"),
    ("a: 1\n---\nb: 2\n", 2, 1, "a second document starts here; keep one a file"),
    ("a: x\x00\n", 1, 5, "control character U+0000; remove it"),
    ("a:\n  - b\n c: 1\n", 3, 2, "indentation does not match the lines above"),
]


@pytest.mark.parametrize(("text", "line", "column", "sentence"), REFUSED)
def test_what_this_yaml_refuses_is_told_in_one_line_at_its_place(
    text: str, line: int, column: int, sentence: str
):
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.yaml")
    said = str(caught.value)
    assert said.startswith(f"f.yaml:{line}:{column}: ")
    assert sentence in said
    assert "\n" not in said


def test_words_of_yaml_1_1_are_texts():
    text = "a: no\nb: yes\nc: on\nd: off\ne: 2027-01-08\nf: 12:30\ng: 1_000\nno: 1\n"
    assert parse(text, "f").value == {
        "a": "no",
        "b": "yes",
        "c": "on",
        "d": "off",
        "e": "2027-01-08",
        "f": "12:30",
        "g": "1_000",
        "no": 1,
    }


def test_numbers_booleans_and_nothing_are_those_of_yaml_1_2():
    text = "[1, -2, 0x1F, 0o17, 017, 1.5, .5, 1e3, true, False, null, ~, '1', \"true\"]"
    assert parse(text, "f").value == [
        *(1, -2, 31, 15, 17, 1.5, 0.5, 1000.0, True, False, None, None, "1", "true")
    ]


def test_every_value_and_key_has_its_place():
    source = parse("é: 1\nmodels:\n  - id: A\n    sdk: {x: [1, 22]}\n", "f")
    assert source.at(("models", 0, "sdk", "x", 1)) == Place("f", 4, 18)
    assert source.key(("models", 0, "sdk")) == Place("f", 4, 5)
    assert source.at(("models", 0, "absent")) == Place("f", 3, 5)


def test_a_byte_order_mark_is_dropped(tmp_path: Path):
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: |\r\n  x\r\n  y\r\n")
    source = load_source(path)
    assert source.value == {"a": 1, "b": "x\ny\n"}
    assert source.key(("a",)) == Place(str(path), 1, 1)


def test_a_file_that_is_not_utf_8_is_refused_at_the_byte(tmp_path: Path):
    path = tmp_path / "f.yaml"
    path.write_bytes("a: é\nnom: ".encode() + "café".encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        load_source(path)
    assert str(caught.value) == f"{path}:2:9: byte 0xe9 is not UTF-8; save the file in UTF-8"


@pytest.mark.parametrize("text", ["", "# nothing\n", "\n\n"])
def test_an_empty_file_is_refused(text: str):
    with pytest.raises(ConfigError, match="the file is empty; write its content"):
        parse(text, "f")


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path):
    with pytest.raises(ConfigError, match="not found; check the path"):
        load_source(tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match="is a folder; a file is expected"):
        load_source(tmp_path)


@pytest.mark.parametrize(
    "text", ["[" * 300 + "]" * 300, "[" * 5000, "{a: " * 200 + "1" + "}" * 200]
)
def test_a_document_too_deep_is_refused(text: str):
    with pytest.raises(ConfigError):
        parse(text, "f")


@given(st.text(alphabet=st.sampled_from("ab:-[]{}\"'&*!|>#%@,? \n\t0.é<~\\")))
def test_any_text_gives_a_document_or_a_refusal(text: str):
    with suppress(ConfigError):
        parse(text, "f")
