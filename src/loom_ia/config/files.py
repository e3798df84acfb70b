"""Files of a configuration, read with one clear sentence for each way it can fail."""

from __future__ import annotations

from pathlib import Path

from loom_ia.config.errors import ConfigError, Issue, Loc, Place
from loom_ia.core.causes import cause
from loom_ia.core.templates import position
from loom_ia.core.text import Text

_BOM = b"\xef\xbb\xbf"


def refused(place: Place, text: Text, loc: Loc = ()) -> ConfigError:
    """Error with one issue."""
    return ConfigError((Issue(place, text, loc),))


def read(path: Path) -> str:
    """Text of a UTF-8 file; a byte order mark is dropped, line ends become line feeds.

    Raises:
        ConfigError: the file cannot be read, or is not UTF-8.

    """
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        raise refused(Place(str(path)), unreadable(error)) from error
    return _decoded(path, raw.removeprefix(_BOM)).replace("\r\n", "\n").replace("\r", "\n")


def folder(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Files of a folder with one of these suffixes, by name; hidden ones are left out.

    Raises:
        ConfigError: the folder cannot be listed.

    """
    try:
        paths = sorted(path.iterdir())
    except (OSError, ValueError) as error:
        raise refused(Place(str(path)), unreadable(error)) from error
    return [at for at in paths if at.suffix in suffixes and not at.name.startswith(".")]


def unreadable(error: OSError | ValueError) -> Text:
    """Why a file or a folder could not be read."""
    match error:
        case FileNotFoundError():
            return Text("not found; check the path")
        case IsADirectoryError():
            return Text("is a folder; a file is expected")
        case NotADirectoryError():
            return Text("is a file; a folder is expected")
        case PermissionError():
            return Text("cannot be read: permission denied; give this user the right to read it")
        case OSError():
            return Text("cannot be read: {reason}", {"reason": cause(error)})
        case _:
            return Text("not a usable path; check it")


def _decoded(path: Path, raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8")
        code = f"0x{raw[error.start]:02x}"
        problem = Text("byte {byte} is not UTF-8; save the file in UTF-8", {"byte": code})
        place = Place(str(path), *position(before, len(before)))
        raise refused(place, problem) from error
