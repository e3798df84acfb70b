"""What a run can do next: a closed union, each value performed by one place of the interpreter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from loom_ia.core.state import Call


@dataclass(slots=True)
class Stop:
    """Close the children, then record that the run was cancelled."""


@dataclass(slots=True)
class Fail:
    """End the run without an answer."""

    code: str
    params: dict[str, object] = field(default_factory=dict[str, object])
    resumable: bool = False


@dataclass(slots=True)
class Expire:
    """Settle requests that nobody decided in time."""

    calls: tuple[Call, ...]


@dataclass(slots=True)
class CallModel:
    """Ask the main model; `final` asks for an answer without tools."""

    step: int
    attempt: int = 1
    final: bool = False


@dataclass(slots=True)
class Review:
    """Run the checks that have not spoken yet of the answer, of a turn or of a result."""

    checks: tuple[str, ...]
    of: Literal["answer", "turn", "result"] = "answer"
    call_id: str = ""
    """The call whose result is judged."""


@dataclass(slots=True)
class Repair:
    """Set a refused answer aside and tell its author why."""

    diagnosis: str


@dataclass(slots=True)
class RunTools:
    """Run calls together; `opens` their step first."""

    step: int
    calls: tuple[Call, ...]
    opens: bool = False


@dataclass(slots=True)
class Drive:
    """Advance the child run of a call."""

    call: Call


@dataclass(slots=True)
class Settle:
    """Ask a tool's own check whether a call of unknown outcome acted."""

    call: Call


@dataclass(slots=True)
class Abandon:
    """Tell the model that the outcome of a call is unknown."""

    call: Call


@dataclass(slots=True)
class Ask:
    """Ask a human about calls."""

    calls: tuple[Call, ...]
    why: Literal["declared", "unknown", "changed"]


@dataclass(slots=True)
class Close:
    """Close the step of a batch whose calls are all settled."""

    step: int


@dataclass(slots=True)
class Complete:
    """Let the answer leave; `text` replaces it, `verified` is false for a marked one."""

    text: str | None = None
    verified: bool = True


Effect = (
    Stop
    | Fail
    | Expire
    | CallModel
    | Review
    | Repair
    | RunTools
    | Drive
    | Settle
    | Abandon
    | Ask
    | Close
    | Complete
)
