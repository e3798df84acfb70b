"""What the documents point at exists."""

import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
TARGET = re.compile(r"(?:^|`)make ([a-z]+)(?=[ ]*(?:`|#|$)|[ ][A-Z])", re.MULTILINE)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_relative_link_leads_somewhere(document: Path, reference: ModuleType):
    links = LINK.findall(document.read_text(encoding="utf-8"))
    targets = [(document.parent / link).resolve() for link in links]
    assert [path for path in targets if not (path.exists() or is_written(path, reference))] == []


def is_written(path: Path, reference: ModuleType) -> bool:
    """Say whether the build of the documents writes this page, which no clone holds."""
    return path.parent.name == "reference" and path.stem in reference.pages(path.parts[-3])


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_make_command_is_a_target(document: Path):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    assert set(TARGET.findall(document.read_text(encoding="utf-8"))) <= targets
