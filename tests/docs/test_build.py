"""The documents build, and a warning of the build is an error."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow  # the whole build
def test_the_documents_build_without_a_warning(tmp_path: Path) -> None:
    words = ("-W", "--keep-going", "-q", "-b", "html", "-d", str(tmp_path / "trees"))
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, str(ROOT / "docs"), str(tmp_path / "html")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    settings = (tmp_path / "html" / "en" / "reference" / "settings.html").read_text("utf-8")
    assert "max_iterations" in settings
