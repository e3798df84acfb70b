"""`loom serve` as a process: its address, its warnings, its probes, its end."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest


def test_an_open_api_is_said_on_standard_error_and_by_the_probe(served):
    server = served()
    assert "open" in server.hear("Warning")
    ready = server.client.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert "open" in ready.json()["warnings"][0]
    assert server.client.get("/healthz").json() == {"status": "ok"}


def test_it_listens_on_this_machine_alone_unless_told_otherwise(served, project: Path):
    assert served().url.startswith("http://127.0.0.1:")
    config = project / "loom.yaml"
    config.write_text(f"{config.read_text('utf-8')}server: {{host: 0.0.0.0}}\n", "utf-8")
    assert served().url.startswith("http://0.0.0.0:")
    assert served("--host", "127.0.0.1").url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_when_told_and_says_nothing_on_standard_output(served, how: int):
    server = served()
    assert server.client.get("/v1/agents").status_code == 200
    assert server.stop(how) == 0
    assert server.process.stdout.read() == ""
    assert [line for line in server.said if "Traceback" in line] == []


def typed(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "loom_ia.access.cli.main", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_an_address_that_is_taken_is_said(project: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = typed(project, "serve", "--port", port)
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_production_is_not_served_open(project: Path):
    done = typed(project, "--profile", "prod", "serve", "--port", "0")
    assert done.returncode == 2
    assert "prod" in done.stderr


def test_what_the_server_did_is_counted_without_saying_what_was_asked(served):
    server = served()
    server.client.post("/v1/agents/talk/runs", json={"message": "secret"})
    server.client.get("/v1/runs/some-id")
    server.client.get("/nowhere")
    text = server.client.get("/metrics").text
    assert 'loom_runs_total{agent="talk",status="completed"} 1' in text
    run = 'method="POST",route="/v1/agents/{name}/runs"'
    assert f'loom_http_requests_total{{{run},status="200"}} 1' in text
    assert f'loom_http_request_duration_seconds_bucket{{{run},le="+Inf"}} 1' in text
    assert 'loom_http_requests_total{method="GET",route="/v1/runs/{run_id}",status="404"} 1' in text
    assert 'route="-",status="404"} 1' in text
    assert "secret" not in text
    assert "some-id" not in text
    assert server.client.get("/metrics").headers["content-type"].startswith("text/plain")
