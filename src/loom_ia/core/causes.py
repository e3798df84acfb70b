"""What the operating system refused, in the reader's language."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from loom_ia.core.text import Text

_CAUSES: Mapping[int, Text] = {
    errno.ENOENT: Text("there is no such file or folder"),
    errno.EACCES: Text("permission denied"),
    errno.EPERM: Text("permission denied"),
    errno.EROFS: Text("the disk can only be read"),
    errno.EISDIR: Text("it is a folder, a file is expected"),
    errno.ENOTDIR: Text("a part of the path is a file, a folder is expected"),
    errno.EEXIST: Text("it exists already"),
    errno.ENOSPC: Text("the disk is full"),
    errno.EDQUOT: Text("the disk is full"),
    errno.EFBIG: Text("the file is too large"),
    errno.ENAMETOOLONG: Text("the name is too long"),
    errno.ELOOP: Text("its links lead back to themselves"),
    errno.EMFILE: Text("too many files are open"),
    errno.ENFILE: Text("too many files are open"),
    errno.EIO: Text("the disk does not answer as it should"),
}
"""Source: POSIX, `errno.h`."""


def cause(error: OSError) -> Text:
    """Why the system refused; its own words for what is rare."""
    known = _CAUSES.get(error.errno or 0)
    return known or Text("the system says: {what}", {"what": error.strerror or str(error)})
