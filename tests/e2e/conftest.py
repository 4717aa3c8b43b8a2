"""Fixtures of the end-to-end tests: the rig for the session, a clean cluster and daemons for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from typing import Any, Callable, Generator, Iterator, NoReturn, Sequence

import pytest

from tests.e2e import booted
from tests.e2e.cluster import Cluster
from tests.e2e.daemon import IN_POOL, SERVICE, Daemon, Overrides, Surroundings
from tests.e2e.packages import HIGHER, Packages, Workshop
from tests.e2e.rig import lifecycle, places
from tests.e2e.rig.client import Ec2
from tests.e2e.rig.process import RigError
from tests.e2e.tap import Tap

StartDaemon = Callable[..., Daemon]
FAILED = pytest.StashKey[bool]()
_numbers = itertools.count()


# First, so that `-m rig` sees the mark.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test of this tier may take longer than one of the others; it is marked where it needs the rig."""
    for item in items:
        if "rig" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.rig)
        if item.path.parent == places.REPOSITORY / "tests/e2e" and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(400, func_only=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(scope="session")
def rig() -> Iterator[None]:
    """The whole rig; left as it was found, running or not."""
    try:
        with lifecycle.alone():
            ran_before = lifecycle.is_up()
            lifecycle.up()
            shutil.rmtree(places.base() / "taps", ignore_errors=True)
            for home in (places.base() / "daemons").glob("*-*"):
                if not os.path.exists(f"/proc/{home.name.partition('-')[0]}"):  # else of a test run beside this one
                    shutil.rmtree(home, ignore_errors=True)
            yield
            if not ran_before:
                lifecycle.down()
    except lifecycle.CannotRun as error:
        cannot("the rig cannot run", error)


def cannot(what: str, error: RigError) -> NoReturn:
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"{what}, and in CI it must: {error}", pytrace=False)
    pytest.skip(f"{what}: {error}")


@pytest.fixture(scope="session")
def debian() -> None:
    """The system of `booted.machine` can be had here."""
    try:
        booted.system()
    except RigError as error:
        cannot("no Debian 13 can be booted", error)


@pytest.fixture(scope="module")
def machine(debian: None) -> Iterator[booted.Machine]:
    """A Debian 13 with systemd, without a network, for the tests of one module."""
    with booted.machine() as made:
        yield made


@pytest.fixture(scope="session")
def workshop() -> Iterator[Workshop]:
    base = places.base() / f"packages-{os.getpid()}"
    base.mkdir(parents=True)
    yield Workshop(base)
    shutil.rmtree(base)


@pytest.fixture(scope="session")
def packages(workshop: Workshop) -> Packages:
    """Of this tree as it is."""
    return workshop.build(workshop.clone("clone", 0o022), "out")


@pytest.fixture(scope="session")
def higher(packages: Packages, workshop: Workshop) -> Packages:
    """Of the same tree with a higher version and another configuration to install."""
    workshop.next_release(HIGHER)
    clone = workshop.base / "clone"
    pull = ["git", "-c", "safe.directory=*", "-C", str(clone), "pull", "--quiet", "origin", "next"]
    subprocess.run(pull, check=True, capture_output=True)
    return workshop.build(clone, "higher")


@pytest.fixture
def cluster(rig: None, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster with no job, no worker, no instance and no fault."""
    lifecycle.reset()
    cluster = Cluster()
    yield cluster
    if request.node.stash.get(FAILED, False):
        print(cluster.evidence())


@pytest.fixture
def second(cluster: Cluster) -> Ec2:
    """A second EC2 endpoint with instances of its own, for workers of the same cluster."""
    lifecycle.start_ec2(places.SECOND)
    cluster.clouds.append(Ec2(places.SECOND))
    return cluster.clouds[1]


@pytest.fixture
def tap(cluster: Cluster) -> Iterator[Tap]:
    """Taps on HTCondor's commands, for daemons that are started with ``taps=tap``."""
    tap = Tap(places.base() / "taps" / str(next(_numbers)))
    yield tap
    tap.close()


@pytest.fixture
def daemon(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[StartDaemon]:
    """Start a daemon: `daemon(quota={"max_vms": 2})`; sections and keys of the configuration file."""
    yield from daemons(request, IN_POOL)


def daemons(request: pytest.FixtureRequest, surroundings: Surroundings) -> Iterator[StartDaemon]:
    """What a fixture like `daemon` yields, for daemons elsewhere."""
    started: list[Daemon] = []

    def start(program: Sequence[str] = SERVICE, taps: Any = None, **overrides: Overrides) -> Daemon:
        directory = None if taps is None else taps.directory
        made = Daemon(f"{os.getpid()}-{next(_numbers)}", overrides, program, directory, surroundings)
        started.append(made)
        made.start()
        return made

    yield start
    for made in started:
        if request.node.stash.get(FAILED, False):
            print(made.evidence())
        made.close()
