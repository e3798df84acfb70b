"""The project that `loom init` writes: one small agent, in the language of the reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from loom_ia.core.causes import cause
from loom_ia.core.errors import Kind, LoomError

if TYPE_CHECKING:
    from loom_ia.locale import Language

Journal = Literal["jsonl", "sqlite"]
JOURNALS: Mapping[Journal, str] = {
    "jsonl": "backend: jsonl, path: data",
    "sqlite": "backend: sqlite, path: data/loom.db",
}
AGENTS: Mapping[Language, str] = {"fr": "devis", "en": "quote"}
"""Name of the agent, unless another one is chosen."""
CONFIG = "loom.yaml"
SCHEMA = "loom.schema.json"
_TEXTS = Path(__file__).parent


class InitOptionError(LoomError):
    """What was asked for cannot be written."""

    kind = Kind.INVALID
    template = "{option}: {reason}"


class ProjectExistsError(LoomError):
    """The folder holds something that would be overwritten."""

    kind = Kind.CONFLICT
    template = "{folder}: there already: {files}; nothing was written; name another folder"


class ProjectNotWrittenError(LoomError):
    """The folder does not take the files."""

    kind = Kind.UNAVAILABLE
    template = "{path}: {reason}; nothing was written"


@dataclass(frozen=True, slots=True)
class Project:
    """What is to be written, and where."""

    folder: Path
    language: Language
    agent: str
    journal: Journal = "jsonl"

    @property
    def config(self) -> Path:
        """Its root file."""
        return self.folder / CONFIG


def files(project: Project) -> dict[str, str]:
    """Text of each file, by its path inside the folder."""
    source = _TEXTS / project.language
    usual = AGENTS[project.language]
    found: dict[str, str] = {}
    for path in sorted(source.rglob("*.txt")):
        name = path.relative_to(source).with_suffix("").as_posix()
        text = path.read_text(encoding="utf-8").replace("@agent@", project.agent)
        found[name.replace(f"/{usual}.", f"/{project.agent}.")] = text.replace(
            "@journal@", JOURNALS[project.journal]
        )
    return dict(sorted(found.items(), key=lambda item: (item[0] != CONFIG, "/" in item[0])))


def write(project: Project, texts: Mapping[str, str]) -> None:
    """Write the files: all of them, or none.

    Raises:
        ProjectExistsError: some are there already.
        ProjectNotWrittenError: the system refuses; what was written is removed.

    """
    targets = [project.folder / name for name in texts]
    _refuse_present(project.folder, targets)
    written: list[Path] = []
    try:
        for path, text in zip(targets, texts.values(), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        if isinstance(error, FileExistsError):  # since it was looked for
            _refuse_present(project.folder, targets)
        where = error.filename or project.folder
        raise ProjectNotWrittenError(path=where, reason=cause(error)) from error


def _refuse_present(folder: Path, targets: list[Path]) -> None:
    """Raise for what would be overwritten, a link that leads nowhere included."""
    present = [path for path in targets if path.is_symlink() or path.exists()]
    if present:
        names = ", ".join(path.relative_to(folder).as_posix() for path in present)
        raise ProjectExistsError(folder=folder, files=names)
