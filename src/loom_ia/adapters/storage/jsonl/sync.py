"""The sync of a session file, done by another thread than the one that writes."""

from __future__ import annotations

import os

from loom_ia.adapters.files import refusal, sync_folder
from loom_ia.adapters.storage.jsonl.index import Index
from loom_ia.adapters.storage.jsonl.log import Log
from loom_ia.core.errors import StoreUnavailableError
from loom_ia.core.text import Text


class LogSync:
    """Puts on the disk all that was written in a log, and announced there, until it was made.

    It outlives the log's own descriptor.
    """

    def __init__(self, log: Log, index: Index) -> None:
        self._log, self._fd, self._index = log, os.dup(log.fd), index
        self._announced = log.announced

    def flush(self) -> None:
        """Put on the disk what must be: what a start announced first, then events.

        Raises:
            StoreUnavailableError: the disk did not take it.

        """
        log = self._log
        try:
            if log.listed < self._announced:
                self._index.flush()
                log.listed = max(log.listed, self._announced)
            os.fdatasync(self._fd)
            if not log.named:
                sync_folder(log.path.parent)
                log.named = True
        except OSError as error:
            reason = Text("{why}; what was written may be lost", {"why": refusal(error)})
            raise StoreUnavailableError(path=str(log.path), reason=reason) from error

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)
