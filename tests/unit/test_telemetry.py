"""Logs: one handler of ours, nothing of the application touched."""

import json
import logging
import subprocess
import sys

import pytest

from loom_ia.telemetry import configure_logging
from loom_ia.telemetry.logging import LoggingOptionError, StderrHandler

LOGGER = logging.getLogger("loom_ia")
IDS = {"run_id": "r1", "span_id": "s1", "tenant_id": "default"}


@pytest.fixture(autouse=True)
def restored():
    handlers, level = LOGGER.handlers[:], LOGGER.level
    yield
    LOGGER.handlers[:] = handlers
    LOGGER.setLevel(level)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_console_line_says_what_and_where(capsys):
    configure_logging()
    logging.getLogger("loom_ia.tool").info("tool %s: %s", "prix_ttc", "completed", extra=IDS)
    (line,) = lines(capsys)
    assert line.endswith(
        "INFO    loom_ia.tool tool prix_ttc: completed  run_id=r1 span_id=s1 tenant_id=default"
    )


def test_a_json_line_is_one_object(capsys):
    configure_logging("INFO", "json")
    logging.getLogger("loom_ia.model").info("é\nx", extra=IDS)
    (line,) = lines(capsys)
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {"level": "INFO", "logger": "loom_ia.model", "message": "é\nx", **IDS}


def test_a_line_without_identifiers_has_none(capsys):
    configure_logging()
    LOGGER.warning("a\nb")
    (line,) = lines(capsys)
    assert line.endswith("WARNING loom_ia a\\nb")


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_traceback_is_shown(capsys, form):
    configure_logging("INFO", form)
    try:
        int("x")
    except ValueError:
        LOGGER.exception("x")
    assert "Traceback" in capsys.readouterr().err


def test_lines_below_the_level_are_not_written(capsys):
    configure_logging("warning")
    logging.getLogger("loom_ia.tool").info("x")
    assert lines(capsys) == []


def test_configuring_again_replaces_what_it_did_and_nothing_else(capsys):
    root, mine = logging.getLogger().handlers[:], logging.NullHandler()
    LOGGER.addHandler(mine)
    configure_logging("INFO", "json")
    configure_logging("INFO", "console")
    assert [type(h) for h in LOGGER.handlers].count(StderrHandler) == 1
    assert mine in LOGGER.handlers
    assert logging.getLogger().handlers == root
    LOGGER.info("x")
    assert len(lines(capsys)) == 1


@pytest.mark.parametrize(
    ("level", "form", "words"),
    [
        ("LOUD", "console", "logging level: 'LOUD'; accepted: DEBUG, INFO"),
        ("INFO", "xml", "logging format: 'xml'; accepted: console, json"),
    ],
)
def test_a_wrong_option_is_refused_with_the_accepted_ones(level, form, words):
    with pytest.raises(LoggingOptionError, match=words):
        configure_logging(level, form)


def test_without_configuration_nothing_is_shown():
    code = (
        "import logging, loom_ia.telemetry; logging.getLogger('loom_ia.tool').error('secret');"
        "print(logging.getLogger().handlers)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


async def test_logging_on_the_loop_is_allowed(capsys):
    configure_logging()
    LOGGER.info("x")
    assert len(lines(capsys)) == 1
