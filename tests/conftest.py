"""What every test lives under: no blocked event loop, and services that are real or said absent."""

import os
from collections.abc import Callable, Iterator

import jsonschema  # noqa: F401 - it reads files when it is imported, here outside any loop
import pytest
from blockbuster import BlockBuster, BlockBusterFunction
from hypothesis import HealthCheck, settings

os.environ["LOOM_LANG"] = "en"  # texts are asserted in English; what speaks French says so

settings.register_profile("dev", deadline=None, max_examples=50)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=200,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-services",
        action="store_true",
        help="fail, instead of skipping, the tests whose service is absent",
    )


@pytest.fixture(scope="session", autouse=True)
def blockbuster() -> Iterator[BlockBuster]:
    """Fail any call of ours that blocks a running event loop."""
    guard = BlockBuster("loom_ia")
    for known in guard.functions.values():
        known.can_block_in("loom_ia/adapters/io.py", "_in_place")  # ADR 0010; never a sync
    for name in ("os.fsync", "os.fdatasync"):
        guard.functions[name] = BlockBusterFunction(None, name, scanned_modules="loom_ia")
    guard.activate()
    yield guard
    guard.deactivate()


@pytest.fixture(autouse=True)
def english() -> None:
    """Give back to each test the language that another one may have changed."""
    from loom_ia import locale

    locale.install(os.environ)


@pytest.fixture(scope="session")
def service(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Give the address of a real service: `service("POSTGRES")` reads LOOM_TEST_POSTGRES."""

    def address(name: str) -> str:
        variable = f"LOOM_TEST_{name}"
        if found := os.environ.get(variable):
            return found
        if request.config.getoption("--require-services"):
            pytest.fail(f"{variable} is not set, and --require-services was given")
        pytest.skip(f"{variable} is not set")

    return address
