"""The folders of tenants, and what the sessions of each share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Lock

from loom_ia.adapters.names import encode
from loom_ia.adapters.storage.jsonl.graves import Graves, snapshot_path
from loom_ia.adapters.storage.jsonl.index import Index
from loom_ia.adapters.storage.jsonl.leases import LeaseFiles
from loom_ia.adapters.storage.jsonl.spending import SpendingFile
from loom_ia.adapters.storage.process import Process


@dataclass(slots=True, eq=False)
class Tenant:
    """Folder of a tenant, and what its sessions share."""

    folder: Path
    index: Index
    leases: LeaseFiles
    graves: Graves
    spending: SpendingFile

    def path(self, session_id: str) -> Path:
        """File of a session."""
        return self.folder / f"{encode(session_id)}.jsonl"

    def snapshot(self, session_id: str) -> Path:
        """File of what can be made again from that of a session."""
        return snapshot_path(self.folder, session_id)


@dataclass(slots=True, eq=False)
class Tenants:
    """Folders of all tenants."""

    data: Path
    here: Process
    clock: Callable[[], datetime]
    _known: dict[str, Tenant] = field(default_factory=dict[str, Tenant])
    _lock: Lock = field(default_factory=Lock)

    def get(self, tenant_id: str) -> Tenant:
        """A tenant, whose folder may not exist yet."""
        with self._lock:
            found = self._known.get(tenant_id)
            if found is None:
                folder = self.data / encode(tenant_id)
                index = Index(tenant_id, folder, self.data)
                leases = LeaseFiles(folder, self.data, self.here)
                found = Tenant(
                    folder, index, leases, Graves(folder, self.data), SpendingFile(folder)
                )
                self._known[tenant_id] = found
            return found
