# ruff: noqa: INP001 - a script, run by Sphinx
"""How the documents are built; the reference is written from the program each time."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

import reference  # noqa: E402  what it imports stands in `tools`

project = "Loom-IA"
author = "The Loom-IA authors"
extensions = ["myst_parser", "sphinxcontrib.mermaid"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
# The planner's diagram is a fence that GitHub draws too.
myst_fence_as_directive = ["mermaid"]
exclude_patterns = ["adr/0000-template.md"]
html_theme = "furo"
html_title = "Loom-IA"

for language in reference.LANGUAGES:
    reference.write(HERE / language / "reference", language)
