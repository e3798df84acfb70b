"""The package under test is this tree, or a wheel built from it: never one from elsewhere."""

import json
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

import loom_ia

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "loom_ia"
IMPORTED = Path(loom_ia.__file__).resolve().parent


def installed_from() -> Path:
    """Where the installer took the distribution: a directory or a file of this machine."""
    record = distribution("loom-ia").read_text("direct_url.json")
    assert record, "loom-ia was installed by name, from an index"
    url = urlsplit(json.loads(record)["url"])
    assert url.scheme == "file"
    return Path(unquote(url.path)).resolve()


def texts(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.py")}


def test_the_distribution_was_installed_from_this_tree():
    assert installed_from().is_relative_to(ROOT)


def test_the_imported_package_is_what_this_tree_holds():
    assert IMPORTED == SOURCE or texts(IMPORTED) == texts(SOURCE)


def test_the_installed_metadata_is_that_of_this_tree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert distribution("loom-ia").version == project["version"]
