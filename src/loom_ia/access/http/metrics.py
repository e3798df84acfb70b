"""Counts of what a server did, in the text format that Prometheus reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds: a run may take minutes."""

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Durations:
    """How long requests took, by bucket."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one request."""
        place = next((n for n, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))
        self.counts[place] += 1
        self.total += seconds


@dataclass(slots=True)
class Metrics:
    """Everything that is counted; it says nothing of what was asked or answered."""

    requests: dict[Labels, int] = field(default_factory=lambda: defaultdict[Labels, int](int))
    durations: dict[Labels, Durations] = field(
        default_factory=lambda: defaultdict[Labels, Durations](Durations)
    )
    runs: dict[Labels, int] = field(default_factory=lambda: defaultdict[Labels, int](int))
    in_progress: int = 0
    followers: int = 0
    """Open streams of events."""

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request, by the pattern of its route."""
        where = (("method", method), ("route", route))
        self.requests[(*where, ("status", str(status)))] += 1
        self.durations[where].add(seconds)

    def ended(self, agent: str, status: str) -> None:
        """Count a run that a request started and saw end, or wait."""
        self.runs[(("agent", agent), ("status", status))] += 1

    def exposition(self) -> Iterator[str]:
        """Lines of the text format."""
        yield from _family("loom_http_requests_total", "counter", "Requests answered.")
        yield from _samples("loom_http_requests_total", self.requests)
        name = "loom_http_request_duration_seconds"
        yield from _family(name, "histogram", "Seconds until the whole answer had left.")
        for labels, durations in sorted(self.durations.items()):
            yield from _histogram(name, labels, durations)
        yield from _family("loom_http_requests_in_progress", "gauge", "Requests being answered.")
        yield f"loom_http_requests_in_progress {self.in_progress}\n"
        yield from _family("loom_event_streams", "gauge", "Open streams of events.")
        yield f"loom_event_streams {self.followers}\n"
        yield from _family(
            "loom_runs_total", "counter", "Runs that callers waited for, by how they stood then."
        )
        yield from _samples("loom_runs_total", self.runs)


def _family(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}\n"
    yield f"# TYPE {name} {kind}\n"


def _samples(name: str, values: Mapping[Labels, int]) -> Iterator[str]:
    for labels, value in sorted(values.items()):
        yield f"{name}{_written(labels)} {value}\n"


def _histogram(name: str, labels: Labels, durations: Durations) -> Iterator[str]:
    reached = 0
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), durations.counts, strict=True):
        reached += count
        yield f"{name}_bucket{_written((*labels, ('le', bound)))} {reached}\n"
    yield f"{name}_sum{_written(labels)} {durations.total:.6f}\n"
    yield f"{name}_count{_written(labels)} {reached}\n"


def _written(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{pairs}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
