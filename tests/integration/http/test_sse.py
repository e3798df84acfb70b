"""Runs followed over server-sent events: each event once, in order, until the end."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

SSE = {"accept": "text/event-stream"}


@dataclass(frozen=True)
class Frame:
    """One event of a stream, as a browser reads it; a comment has neither name nor data."""

    event: str = ""
    data: str = ""
    id: str = ""
    comment: str = ""

    @property
    def json(self) -> dict:
        return json.loads(self.data)


def frames(lines: Iterable[str]) -> Iterator[Frame]:
    found: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            found[name or "comment"] = value.removeprefix(" ")
            continue
        if found.keys() - {"retry"}:
            found.pop("retry", None)
            yield Frame(**found)
        found = {}


def followed(http: httpx2.Client, path: str, last: int | None = None) -> list[Frame]:
    headers = {} if last is None else {"last-event-id": str(last)}
    with http.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        return list(frames(answer.iter_lines()))


def asked(http: httpx2.Client, agent: str = "talk", **body) -> dict:
    answer = http.post(f"/v1/agents/{agent}/runs", json={"message": "Hi", **body})
    assert answer.status_code in {200, 202}, answer.text
    return answer.json()


def journal(http: httpx2.Client, run_id: str) -> list[dict]:
    return http.get("/v1/events", params={"run_id": run_id, "limit": 1000}).json()["events"]


def test_curl_sees_the_events_of_the_journal_then_the_end(server):
    run_id = asked(server.client, "talk", background=True)["run_id"]
    done = subprocess.run(
        ["curl", "-sN", "--max-time", "60", f"{server.url}/v1/runs/{run_id}/events"],
        capture_output=True,
        text=True,
        check=True,
    )
    seen = list(frames(done.stdout.split("\n")))
    events = journal(server.client, run_id)
    assert [frame.json for frame in seen] == events
    assert [frame.event for frame in seen] == [event["type"] for event in events]
    assert [frame.id for frame in seen] == [str(event["position"]) for event in events]
    assert seen[-1].event == "run.completed"


def test_who_comes_back_gets_exactly_what_is_missing(http: httpx2.Client):
    run_id = asked(http)["run_id"]
    path, events = f"/v1/runs/{run_id}/events", journal(http, run_id)
    for last in range(len(events)):
        assert [frame.json for frame in followed(http, path, last)] == events[last:]
    assert [f.json for f in followed(http, f"{path}?after=2")] == events[2:]
    assert [f.json for f in followed(http, f"{path}?after=2", 4)] == events[4:]
    nothing = http.get(path, headers={"last-event-id": str(len(events))})
    assert (nothing.status_code, nothing.content) == (204, b"")


def test_what_cannot_be_followed_is_refused_before_anything_is_sent(http: httpx2.Client):
    run_id = asked(http)["run_id"]
    assert http.get("/v1/runs/nobody/events").json()["code"] == "run_not_found"
    for last in ("-1", "x", "1.5", ""):
        answer = http.get(f"/v1/runs/{run_id}/events", headers={"last-event-id": last})
        assert (answer.status_code, answer.json()["code"]) == (422, "request_unreadable")


class Following(threading.Thread):
    """A client that reads a stream as it comes."""

    def __init__(self, url: str, path: str, **options) -> None:
        super().__init__(daemon=True)
        self._url, self._path, self._options = url, path, options
        self.frames: list[Frame] = []
        self.more = threading.Condition()
        self.start()

    def run(self) -> None:
        with suppress(httpx2.TransportError), httpx2.Client(base_url=self._url) as client:
            method = "POST" if "json" in self._options else "GET"
            with client.stream(method, self._path, timeout=60, **self._options) as answer:
                for frame in frames(answer.iter_lines()):
                    with self.more:
                        self.frames.append(frame)
                        self.more.notify_all()

    def until(self, event: str) -> None:
        with self.more:
            assert self.more.wait_for(
                lambda: event in [f.event or f"comment {f.comment}" for f in self.frames], 60
            ), self.frames

    def events(self) -> list[dict]:
        self.join(timeout=60)
        assert not self.is_alive()
        return [frame.json for frame in self.frames if frame.id]


def typed(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "loom_ia.access.cli.main", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def lively(project: Path) -> Path:
    """A project whose streams say often that they live."""
    config = project / "loom.yaml"
    config.write_text(f"{config.read_text('utf-8')}server: {{heartbeat: 0.1}}\n", "utf-8")
    return project


def test_a_stream_stays_open_while_a_run_waits_and_another_process_decides(served, lively: Path):
    server = served()
    run_id = asked(server.client, "mail")["run_id"]
    several = [Following(server.url, f"/v1/runs/{run_id}/events") for _ in range(3)]
    for one in several:
        one.until("approval.requested")
        one.until("comment ping")
        assert one.is_alive()
    assert "loom_event_streams 3" in server.client.get("/metrics").text
    assert "Settled." in typed(lively, "approve", run_id)
    events = journal(server.client, run_id)
    assert events[-1]["type"] == "run.completed"
    for one in several:
        assert one.events() == events


def test_a_run_that_another_process_drives_is_followed(served, project: Path):
    server = served()
    command = [sys.executable, "-m", "loom_ia.access.cli.main", "run", "slow", "Hi"]
    with subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True) as other:
        end = time.monotonic() + 60
        while not (project / "begun").exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        (line,) = server.client.get("/v1/runs").json()["runs"]
        following = Following(server.url, f"/v1/runs/{line['run_id']}/events")
        following.until("tool.called")
        (project / "enough").touch()
        assert following.events() == journal(server.client, line["run_id"])
        other.communicate(timeout=60)
    assert following.frames[-1].event == "run.completed"


def test_a_run_is_started_and_followed_in_one_call(http: httpx2.Client, server):
    following = Following(
        server.url, "/v1/agents/talk/runs?deltas=1", json={"message": "Hi"}, headers=SSE
    )
    events = following.events()
    assert events == journal(http, events[0]["run_id"])
    names = [frame.event for frame in following.frames]
    called, answered = names.index("model.called"), names.index("model.responded")
    deltas = [n for n, name in enumerate(names) if name == "delta"]
    assert deltas
    assert called < deltas[0] <= deltas[-1] < answered
    text = "".join(following.frames[n].json["text"] for n in deltas)
    assert text == "Hello there."
    assert {following.frames[n].id for n in deltas} == {""}


def test_without_deltas_only_events_of_the_journal_are_sent(server):
    following = Following(server.url, "/v1/agents/talk/runs", json={"message": "Hi"}, headers=SSE)
    following.events()
    assert all(frame.id for frame in following.frames)


def test_a_follower_that_leaves_does_not_stop_the_run(served, project: Path):
    server = served()
    with server.client.stream(
        "POST", "/v1/agents/slow/runs", json={"message": "Hi"}, headers=SSE
    ) as answer:
        started = next(frames(answer.iter_lines()))
        path = answer.headers["location"]
    (project / "enough").touch()
    assert started.event == "run.started"
    following = Following(server.url, f"{path}/events")
    following.until("run.completed")


def test_a_follower_of_an_erased_session_is_told(served):
    server = served()
    run_id = asked(server.client, "mail", session_id="s")["run_id"]
    following = Following(server.url, f"/v1/runs/{run_id}/events")
    following.until("approval.requested")
    server.client.delete("/v1/sessions/s")
    following.join(timeout=60)
    assert following.frames[-1].event == "problem"
    assert following.frames[-1].json["code"] == "session_erased"


def test_streams_end_when_the_server_stops(served):
    server = served()
    run_id = asked(server.client, "mail")["run_id"]
    following = Following(server.url, f"/v1/runs/{run_id}/events")
    following.until("approval.requested")
    begun = time.monotonic()
    assert server.stop(signal.SIGTERM) == 0
    assert time.monotonic() - begun < 20
    following.join(timeout=60)
    assert not following.is_alive()
    again = served()
    rest = Following(again.url, f"/v1/runs/{run_id}/events?after={following.frames[-1].id}")
    again.client.post(f"/v1/runs/{run_id}/approve")
    assert following.events() + rest.events() == journal(again.client, run_id)


@pytest.mark.skipif(not hasattr(os, "kill"), reason="POSIX signals")
def test_a_stream_goes_on_elsewhere_when_its_server_is_killed(served):
    one = served()
    run_id = asked(one.client, "mail")["run_id"]
    first = Following(one.url, f"/v1/runs/{run_id}/events")
    first.until("approval.requested")
    one.stop(signal.SIGKILL)
    two = served()
    rest = Following(two.url, f"/v1/runs/{run_id}/events?after={first.frames[-1].id}")
    two.client.post(f"/v1/runs/{run_id}/approve")
    assert [f.json for f in first.frames if f.id] + rest.events() == journal(two.client, run_id)
