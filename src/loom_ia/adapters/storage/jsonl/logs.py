"""The session files of a store: found, opened, locked, and closed when there are too many."""

from __future__ import annotations

import resource
from collections import OrderedDict
from types import TracebackType

from loom_ia.adapters.files import make_folder, unavailable
from loom_ia.adapters.io import HASTE, UnhurriedError
from loom_ia.adapters.storage.jsonl.graves import tombstone
from loom_ia.adapters.storage.jsonl.log import Log, MovedError
from loom_ia.adapters.storage.jsonl.tenants import Tenants
from loom_ia.adapters.storage.ledger import erased
from loom_ia.core.errors import StoreUnavailableError
from loom_ia.core.text import Text

Key = tuple[str, str]
"""Tenant and session."""

LOGS = 4096
"""Sessions that are remembered; those with a closed file and no run going on go first."""


def files_allowed() -> int:
    """Files that a store may keep open: a quarter of what this process may, within reason."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1024 if soft == resource.RLIM_INFINITY else max(16, min(soft // 4, 1024))


class Logs:
    """Logs of sessions, used by one thread at a time."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants
        self._files = files_allowed()
        self._known: OrderedDict[Key, Log] = OrderedDict()
        self._open: OrderedDict[Key, Log] = OrderedDict()
        self.haste = False
        """True while nothing may be read whole or synced."""

    def close(self) -> None:
        """Close every file."""
        for log in self._open.values():
            log.close()
        self._open.clear()
        self._known.clear()

    def session(
        self, tenant_id: str, session_id: str, *, create: bool = False, change: bool = False
    ) -> Held:
        """A session under its lock, None when there is none.

        Raises, when it is entered:
            UnhurriedError: it is not open, or much is to be read.
            BlockedError: another process holds it.
            StoreUnavailableError: it cannot be opened.
            SessionErasedError: it is to `change` and was erased.

        """
        return Held(self, (tenant_id, session_id), create=create, change=change)

    def forget(self, key: Key) -> None:
        """Close a file and forget what is known of it."""
        self._open.pop(key, None)
        log = self._known.pop(key, None)
        if log is not None:
            log.close()

    def log(self, key: Key) -> Log:
        """What is known of a session, whose file may not be open."""
        known = self._known.get(key)
        return known or Log(self._tenants.get(key[0]).path(key[1]), key[1])

    def lock(self, key: Key, log: Log, *, create: bool, change: bool) -> Log | None:
        """The log once it is open and locked, None when there is no session."""
        found = self._found(key, log, create=create)
        while found is not None:
            try:
                found.lock(most=HASTE if self.haste else None)
            except MovedError:
                found.close()
                found = self._found(key, found, create=False)
            except FileNotFoundError:
                if log.path.exists():
                    raise
                self.forget(key)
                if change:
                    raise self._erased(key, log) from None
                return None
            else:
                return found
        return None

    def _erased(self, key: Key, log: Log) -> StoreUnavailableError:
        """What is raised for a session whose file is gone."""
        grave = self._tenants.get(key[0]).graves.find(key[1])
        if grave is not None:
            return erased(tombstone(grave, pending=False))
        reason = Text("the session was erased; choose another id")
        return StoreUnavailableError(path=str(log.path), reason=reason)

    def _found(self, key: Key, log: Log, *, create: bool) -> Log | None:
        """The log with its file open, None when there is no file and none is to be made."""
        if log.fd >= 0:
            self._open.move_to_end(key)
            return log
        if self.haste and not create:
            raise UnhurriedError
        try:
            log.open(create=False)
        except FileNotFoundError:
            self.forget(key)
            if not create:
                return None
            self._create(log, key)
        self._keep(key, log)
        return log

    def _create(self, log: Log, key: Key) -> None:
        tenant, session_id = self._tenants.get(key[0]), key[1]
        make_folder(tenant.folder, top=self._tenants.data)
        known = tenant.index.names(session_id) or tenant.graves.find(session_id) is not None
        try:
            log.open(create=not known)
        except FileNotFoundError:
            raise self._erased(key, log) from None

    def _keep(self, key: Key, log: Log) -> None:
        self._known[key] = self._open[key] = log
        self._known.move_to_end(key)
        if len(self._open) > self._files:
            idle, old = self._open.popitem(last=False)
            old.close()
            if not old.ledger.open:
                self._known.pop(idle, None)
        if len(self._known) > LOGS:
            gone, old = self._known.popitem(last=False)
            self._open.pop(gone, None)
            old.close()


class Held:
    """A session that is locked while this is entered; errors of the system are the store's."""

    __slots__ = ("_change", "_create", "_key", "_log", "_logs")

    def __init__(self, logs: Logs, key: Key, *, create: bool, change: bool) -> None:
        self._logs, self._key = logs, key
        self._create, self._change = create, change
        self._log: Log | None = None

    def __enter__(self) -> Log | None:
        log = self._logs.log(self._key)
        try:
            self._log = self._logs.lock(self._key, log, create=self._create, change=self._change)
        except OSError as error:
            raise unavailable(log.path, error) from error
        return self._log

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        log = self._log
        if log is not None:
            log.unlock()
        if isinstance(error, OSError):
            raise unavailable(self._logs.log(self._key).path, error) from error
