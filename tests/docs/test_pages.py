"""What a page shows is what its reader gets."""

import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDES = sorted(page for page in (ROOT / "docs").glob("[ef][nr]/*.md") if page.stem != "index")
PAGES = [*GUIDES, ROOT / "README.md", ROOT / "README.fr.md"]


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.slow  # each command is a process of its own
@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_command_of_a_page_prints_what_the_page_shows(
    page: Path, pages: ModuleType, tmp_path: Path
) -> None:
    reading = pages.follow(page, tmp_path)
    assert reading.steps, "a page without an executed example promises what nobody checks"
    for step in reading.steps:
        assert pages.shape(step.printed) == pages.shape(step.shown), step.command


@pytest.mark.parametrize("name", sorted({page.name for page in GUIDES}))
def test_each_guide_exists_in_both_languages_with_the_same_sections(name: str) -> None:
    english, french = (
        re.findall(r"^#+ |^```\w*", (ROOT / "docs" / lang / name).read_text("utf-8"), re.MULTILINE)
        for lang in ("en", "fr")
    )
    assert english == french


def test_both_readmes_have_the_same_sections_and_blocks() -> None:
    english, french = (
        re.findall(r"^#+ |^```\w*", (ROOT / name).read_text("utf-8"), re.MULTILINE)
        for name in ("README.md", "README.fr.md")
    )
    assert english == french


def test_a_page_that_shows_something_else_is_caught(pages: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "en" / "page.md"
    page.parent.mkdir()
    page.write_text("Write `a.txt`:\n\n```text\nyes\n```\n\n```console\n$ cat a.txt\nno\n```\n")
    (step,) = pages.follow(page, tmp_path).steps
    assert (step.printed, step.shown) == ("yes\n", "no\n")
    assert pages.shape(step.printed) != pages.shape(step.shown)
