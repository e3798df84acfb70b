"""The page of the planner is the table itself."""

from pathlib import Path

from loom_ia.core.planner import TABLE, diagram

PAGE = Path(__file__).resolve().parents[2] / "docs" / "planner.md"


def test_the_page_holds_the_diagram_of_the_table():
    text = PAGE.read_text(encoding="utf-8")
    assert f"```mermaid\n{diagram()}```" in text


def test_the_page_lists_every_row_in_order():
    text = PAGE.read_text(encoding="utf-8")
    rows = "\n".join(f"| {row.when} | {row.then} |" for row in TABLE)
    assert rows in text
