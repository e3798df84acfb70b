"""Runs over REST: asked, read, decided, stopped; refused in one shape."""

import json
import threading
import time
from pathlib import Path

import httpx2
import pytest

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 64


def asked(http: httpx2.Client, agent: str = "talk", **body) -> dict:
    answer = http.post(f"/v1/agents/{agent}/runs", json={"message": "Hi", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer: httpx2.Response, status: int, code: str) -> dict:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["code"] == code
    assert problem["type"] == f"urn:loom-ia:error:{code}"
    assert problem["detail"]
    return problem


def test_a_run_is_answered_with_its_result_its_cost_and_the_breakdown(http: httpx2.Client):
    run = asked(http)
    assert (run["status"], run["text"]) == ("completed", "Hello there.")
    assert run["usage"]["output"] > 0
    assert run["cost"] == "0"
    assert [(line["role"], line["calls"]) for line in run["breakdown"]] == [("main", 1)]
    again = http.get(f"/v1/runs/{run['run_id']}")
    assert again.json() == run


def test_the_journal_says_who_asked_and_through_which_door(http: httpx2.Client):
    run = asked(http, context={"user": "u1"})
    events = http.get("/v1/events", params={"run_id": run["run_id"]}).json()["events"]
    started = events[0]["payload"]
    assert started["principal"] == {"id": "anonymous", "channel": "rest"}
    assert started["options"]["context"] == {"user": "u1"}
    assert [event["type"] for event in events][-1] == "run.completed"


def test_a_conversation_goes_on_and_is_listed_exported_counted_and_erased(http: httpx2.Client):
    session = "site/Durand été"  # what an address must escape
    path = "/v1/sessions/site%2FDurand%20%C3%A9t%C3%A9"
    runs = [asked(http, session_id=session)["run_id"] for _ in range(2)]
    shown = http.get(path).json()
    assert [line["run_id"] for line in shown["lines"]] == runs[::-1]
    assert session in [s["session_id"] for s in http.get("/v1/sessions").json()["sessions"]]
    lines = [json.loads(line) for line in http.get(f"{path}/events").text.splitlines()]
    assert lines[0]["session_id"] == session
    assert lines[-1]["end"]["events"] == len([line for line in lines if "payload" in line])
    assert http.get(f"{path}/report").json()["runs"] == 2
    assert http.delete(path).json()["by"] == "anonymous"
    assert http.delete(path).status_code == 200
    refused(http.get(path), 409, "session_erased")
    refused(
        http.post("/v1/agents/talk/runs", json={"message": "Hi", "session_id": session}),
        409,
        "session_erased",
    )


def test_files_come_with_a_form(http: httpx2.Client):
    answer = http.post(
        "/v1/agents/talk/runs",
        data={"message": "Look", "context": '{"a": 1}'},
        files=[("attachments", ("a.png", PNG, "image/png"))],
    )
    assert answer.status_code == 200, answer.text
    run_id = answer.json()["run_id"]
    (started,) = http.get("/v1/events", params={"run_id": run_id, "type": "run.started"}).json()[
        "events"
    ]
    kinds = [block["type"] for block in started["payload"]["message"]["blocks"]]
    assert kinds == ["text", "image"]


@pytest.mark.parametrize(
    ("fields", "files", "status", "code"),
    [
        ({}, [("attachments", PNG)], 422, "request_unreadable"),
        ({"message": "x", "context": "{"}, [("attachments", PNG)], 422, "request_unreadable"),
        ({"message": "x", "unknown": "1"}, [("attachments", PNG)], 422, "request_unreadable"),
        ({"message": "x"}, [("photo", PNG)], 422, "request_unreadable"),
        ({"message": "x"}, [("attachments", b"MZ")], 422, "attachment_type"),
        ({"message": "x"}, [("attachments", PNG)] * 3, 422, "too_many_attachments"),
        ({"message": "x"}, [("attachments", PNG * 2000)], 422, "attachment_too_large"),
        ({"message": "x"}, [("attachments", PNG * 100_000)], 413, "content_too_large"),
    ],
)
def test_a_form_that_cannot_be_taken_is_refused(
    http: httpx2.Client, fields: dict, files: list, status: int, code: str
):
    sent = [(name, ("f", data, "image/png")) for name, data in files]
    refused(http.post("/v1/agents/talk/runs", data=fields, files=sent), status, code)


def test_a_run_in_the_background_is_on_its_way_before_it_is_answered(http: httpx2.Client):
    answer = http.post("/v1/agents/talk/runs", json={"message": "Hi", "background": True})
    assert (answer.status_code, answer.json()["agent"]) == (202, "talk")
    path = answer.headers["location"]
    assert path == f"/v1/runs/{answer.json()['run_id']}"
    end = time.monotonic() + 60
    while (run := http.get(path).json())["status"] != "completed":
        assert time.monotonic() < end
        time.sleep(0.02)
    assert run["text"] == "Hello there."


def test_a_request_made_again_with_its_key_is_the_same_run(http: httpx2.Client):
    key = {"Idempotency-Key": "order-1"}
    first, again = (
        http.post("/v1/agents/talk/runs", json={"message": "Hi"}, headers=key) for _ in range(2)
    )
    assert first.json() == again.json()
    body = {"message": "Hi", "background": True}
    later = http.post("/v1/agents/talk/runs", json=body, headers=key)
    assert (later.status_code, later.json()["run_id"]) == (202, first.json()["run_id"])
    other = http.post("/v1/agents/talk/runs", json={"message": "Ho"}, headers=key)
    assert first.json()["run_id"] in refused(other, 409, "key_used")["detail"]


def test_a_waiting_call_is_approved_with_corrected_arguments(http: httpx2.Client):
    run = asked(http, "mail")
    assert run["status"] == "paused"
    (question,) = run["pending_approvals"]
    path = f"/v1/runs/{run['run_id']}"
    body = {"call": question["call_id"], "arguments": {"to": "durand"}, "on_behalf_of": "Anne"}
    done = http.post(f"{path}/approve", json=body)
    assert (done.status_code, done.json()["text"]) == (200, "Settled.")
    assert http.post(f"{path}/approve", json=body).json()["text"] == "Settled."
    conflict = refused(http.post(f"{path}/reject", json={}), 409, "already_decided")
    assert "anonymous" in conflict["detail"]
    (granted,) = http.get(
        "/v1/events", params={"run_id": run["run_id"], "type": "approval.granted"}
    ).json()["events"]
    assert granted["payload"]["by"] == {"id": "anonymous", "channel": "rest"}
    assert granted["payload"]["on_behalf_of"] == "Anne"


def test_a_refused_call_does_not_leave(http: httpx2.Client, server):
    before = (server.folder / "sent.txt").exists() and (server.folder / "sent.txt").read_text()
    run = asked(http, "mail")
    done = http.post(f"/v1/runs/{run['run_id']}/reject", json={"reason": "not now"})
    assert done.json()["status"] == "completed"
    after = (server.folder / "sent.txt").exists() and (server.folder / "sent.txt").read_text()
    assert before == after


def test_a_run_is_cancelled_once_and_the_same_when_asked_again(http: httpx2.Client):
    run = asked(http, "mail")
    for _ in range(2):
        answer = http.post(f"/v1/runs/{run['run_id']}/cancel", json={"reason": "changed my mind"})
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert http.post(f"/v1/runs/{run['run_id']}/cancel").status_code == 200
    refused(http.post(f"/v1/runs/{run['run_id']}/approve"), 409, "run_ended")
    refused(http.post(f"/v1/runs/{run['run_id']}/resume"), 409, "not_resumable")


def test_a_run_that_failed_says_why_and_is_resumed(http: httpx2.Client):
    run = asked(http, "down")
    assert run["status"] == "failed"
    assert run["error"]
    assert run["resumable"]
    again = http.post(f"/v1/runs/{run['run_id']}/resume")
    assert (again.status_code, again.json()["status"]) == (200, "failed")
    types = [
        event["type"]
        for event in http.get("/v1/events", params={"run_id": run["run_id"]}).json()["events"]
    ]
    assert "run.resumed" in types


def test_traces_and_reports_are_those_of_the_run(http: httpx2.Client):
    run = asked(http)
    trace = http.get(f"/v1/traces/{run['run_id']}").json()
    assert trace["result"]["text"] == "Hello there."
    assert [step["kind"] for step in trace["steps"]] == ["model"]
    report = http.get(f"/v1/runs/{run['run_id']}/report").json()
    assert report["lines"] == run["breakdown"]


def test_an_agent_that_is_not_offered_is_as_if_it_did_not_exist(http: httpx2.Client):
    names = [agent["name"] for agent in http.get("/v1/agents").json()["agents"]]
    assert names == ["talk", "mail", "slow", "down"]
    for name in ("hidden", "nobody"):
        answer = http.post(f"/v1/agents/{name}/runs", json={"message": "x"})
        problem = refused(answer, 404, "unknown_agent")
        assert "talk" in problem["detail"]
        assert name == "hidden" or "hidden" not in problem["detail"]


def test_pages_of_runs_neither_skip_nor_repeat(served):
    http = served().client
    expected = [asked(http)["run_id"] for _ in range(5)][::-1]
    seen, after = [], ""
    while True:
        page = http.get("/v1/runs", params={"limit": 2, "after": after}).json()
        seen += [line["run_id"] for line in page["runs"]]
        asked(http)
        if not (after := page["next"]):
            break
    assert seen == expected


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/runs/nobody", None, 404, "run_not_found"),
        ("GET", "/v1/traces/nobody", None, 404, "run_not_found"),
        ("GET", "/v1/sessions/nobody", None, 404, "session_not_found"),
        ("GET", "/v1/sessions/nobody/events", None, 404, "session_not_found"),
        ("GET", "/v1/runs?limit=0", None, 422, "request_unreadable"),
        ("GET", "/v1/runs?limt=1", None, 422, "request_unreadable"),
        ("GET", "/v1/runs?after=x", None, 422, "invalid_cursor"),
        ("GET", "/v1/events?since=2026-01-01T00:00:00", None, 422, "request_unreadable"),
        ("GET", "/v1/nothing", None, 404, "not_found"),
        ("PUT", "/v1/runs", None, 405, "method_not_allowed"),
        ("POST", "/v1/agents/talk/runs", {}, 422, "request_unreadable"),
        ("POST", "/v1/agents/talk/runs", [], 422, "request_unreadable"),
        ("POST", "/v1/agents/talk/runs", {"message": 1}, 422, "request_unreadable"),
        ("POST", "/v1/agents/talk/runs", {"message": "x", "a": 1}, 422, "request_unreadable"),
        ("POST", "/v1/agents/talk/runs", {"message": "x", "session_id": ""}, 422, "invalid_id"),
        ("POST", "/v1/runs/nobody/approve", {"call": 1}, 422, "request_unreadable"),
        ("POST", "/v1/runs/nobody/approve", {}, 404, "run_not_found"),
    ],
)
def test_what_is_refused_is_told_in_one_shape(
    http: httpx2.Client, method: str, path: str, body: object, status: int, code: str
):
    answer = http.request(method, path, **({} if body is None else {"json": body}))
    refused(answer, status, code)


def test_content_that_is_neither_json_nor_a_form_is_not_read(http: httpx2.Client):
    path = "/v1/agents/talk/runs"
    refused(http.post(path, content=b"message=x"), 415, "unsupported_media_type")
    refused(http.post(path, data={"message": "x"}), 415, "unsupported_media_type")
    json_type = {"content-type": "application/json"}
    refused(http.post(path, content=b"{", headers=json_type), 422, "request_unreadable")
    refused(http.post(path, content=b"\xff", headers=json_type), 422, "request_unreadable")


def test_each_wrong_value_of_a_request_has_its_place(http: httpx2.Client):
    body = {"message": 1, "mesage": "x", "judges": "never"}
    problem = refused(http.post("/v1/agents/talk/runs", json=body), 422, "request_unreadable")
    assert {(f["where"], f["key"]) for f in problem["faults"]} == {
        ("body", "message"),
        ("body", "mesage"),
        ("body", "judges"),
    }
    assert "did you mean 'message'?" in problem["detail"]


@pytest.mark.parametrize(
    ("asked_for", "words"),
    [
        ("fr", "inconnu"),
        ("fr-CA,fr;q=0.9,en;q=0.2", "inconnu"),
        ("en", "unknown"),
        ("de", "unknown"),
    ],
)
def test_an_error_speaks_the_language_of_who_asks(http: httpx2.Client, asked_for: str, words: str):
    answer = http.get("/v1/runs/nobody", headers={"accept-language": asked_for})
    assert words in answer.json()["detail"]


def test_what_was_begun_when_the_server_stops_is_told_and_stays_resumable(served, project: Path):
    server = served()
    answers: list[httpx2.Response] = []
    asking = threading.Thread(
        target=lambda: answers.append(
            server.client.post("/v1/agents/slow/runs", json={"message": "Hi"})
        )
    )
    asking.start()
    end = time.monotonic() + 60
    while not (project / "begun").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    server.process.terminate()
    asking.join(timeout=60)
    problem = refused(answers[0], 503, "server_stopping")
    assert answers[0].headers["retry-after"]
    assert problem["kind"] == "unavailable"
    (project / "enough").touch()
    assert server.process.wait(timeout=60) == 0
    again = served()
    (line,) = again.client.get("/v1/runs").json()["runs"]
    done = again.client.post(f"/v1/runs/{line['run_id']}/resume")
    assert done.json()["text"] == "At last."
