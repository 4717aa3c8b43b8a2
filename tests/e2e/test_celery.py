"""elastiq with real brokers (Debian's Redis and RabbitMQ) and real Celery workers (Debian's, and PyPI's newest)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

from elastiq.plugins.batch import celery_helper
from tests.e2e.cluster import stays, wait_for
from tests.e2e.conftest import FAILED, StartDaemon, cannot, daemons
from tests.e2e.daemon import COMMON, Daemon, Sections, Surroundings
from tests.e2e.rig import fleet, user
from tests.e2e.rig.celery_brokers import PASSWORD, Brokers
from tests.e2e.rig.process import RigError

VISIBLE_S = 6  # Redis gives what was not acknowledged to others after so long
LIBRARIES = {"redis": "debian", "rabbitmq": "pypi"}  # the workers' where the test does not say otherwise


# Where a test is about what both brokers have, one of them has to do; together they take the time that there is.
over_both = pytest.mark.parametrize("brokers", ["redis", "rabbitmq"], indirect=True)
over_redis = pytest.mark.parametrize("brokers", ["redis"], indirect=True)
over_rabbitmq = pytest.mark.parametrize("brokers", ["rabbitmq"], indirect=True)


@pytest.fixture(scope="module")
def started() -> Iterator[dict[str, Brokers]]:
    """Those that run, by their kind: each is started once, in whatever order the tests come."""
    found: dict[str, Brokers] = {}
    yield found
    for one in found.values():
        one.stop()


@pytest.fixture
def brokers(started: dict[str, Brokers], request: pytest.FixtureRequest) -> Brokers:
    if request.param not in started:
        try:
            started[request.param] = Brokers.start(request.param)
        except RigError as error:
            cannot(f"no {request.param} can be run", error)
    return started[request.param]


@pytest.fixture
def celery(brokers: Brokers, request: pytest.FixtureRequest) -> Iterator[Brokers]:
    """No task, no instance; further workers are of the library that goes with the broker."""
    brokers.reset()
    brokers.set_defaults(library=LIBRARIES[brokers.kind])
    yield brokers
    if request.node.stash.get(FAILED, False):
        print(brokers.evidence())


@pytest.fixture
def daemon(celery: Brokers, request: pytest.FixtureRequest) -> Iterator[StartDaemon]:
    def environment(home: Path) -> dict[str, str]:
        return {name: value for name, value in user.environment(home).items() if "CONDOR" not in name}

    def command(argv: Any, variables: Any) -> list[str]:
        return celery.head.in_its_network(user.unprivileged(argv, variables))

    sections: Sections = {
        **COMMON,
        "elastiq": {**COMMON["elastiq"], "batch_plugin": "celery", "idle_for_time_s": 3},
        "ec2": {**COMMON["ec2"], "api_url": fleet.url(celery.head), "memory_mb": None},
        "celery": {"broker_url": celery.url, "reply_timeout_s": 0.7, "gone_after_s": 4},
    }
    yield from daemons(request, Surroundings(sections, environment, command))


def tasks(count: int, seconds: float, first: int = 0, **options: Any) -> list[dict[str, Any]]:
    return [{"number": first + number, "seconds": seconds, **options} for number in range(count)]


def launched(celery: Brokers) -> int:
    return len(celery.cloud.instances())


def all_ended(celery: Brokers, count: int) -> bool:
    return len(celery.notes("ended")) >= count


def assert_each_ran_once(celery: Brokers, count: int) -> None:
    assert celery.notes("started") == celery.notes("ended") == {str(number): 1 for number in range(count)}


def wait_until_gone(celery: Brokers, deadline_s: float = 40) -> None:
    wait_for(lambda: not celery.cloud.alive(), deadline_s, "no instance is left")


def worker_of(daemon: Daemon) -> dict[str, Any]:
    """The one node, once its worker has joined."""
    found: list[dict[str, Any]] = wait_for(lambda: daemon.nodes("idle", "busy"), 30, "a worker joined")
    return found[0]


@pytest.mark.parametrize(("brokers", "library"), [*LIBRARIES.items(), ("redis", "pypi")], indirect=["brokers"])
def test_tasks_get_machines_which_end_when_no_task_is_left(celery: Brokers, daemon: StartDaemon, library: str) -> None:
    celery.set_defaults(library=library, acks_late=library == "debian", names=["celery", "second"], slots=2)
    celery.send(*tasks(6, 2), *tasks(4, 2, first=6, priority=9))
    elastiq = daemon()
    wait_for(lambda: all_ended(celery, 10), 40, "all tasks ran")
    assert launched(celery) == 3, "room for 10 tasks on machines of two processes with two slots each"
    wait_until_gone(celery)
    assert_each_ran_once(celery, 10)
    assert PASSWORD not in elastiq.log() and "s3cr%2Ft" not in elastiq.log()


@over_redis
def test_what_a_worker_has_prefetched_stays_with_its_machine(celery: Brokers, daemon: StartDaemon) -> None:
    celery.set_defaults(library=LIBRARIES[celery.kind], prefetch=4, slots=1)
    celery.send(*tasks(4, 4))
    elastiq = daemon(ec2={"cpus": 4})
    wait_for(lambda: celery.notes("started"), 30, "the first task runs")
    stays(lambda: launched(celery) == 1, 4, "what it has prefetched is no reason to launch")
    (prefetched,) = [group for group in elastiq.status()["queue"]["groups"] if group["waiting"]]
    assert "prefetched" in json.dumps(prefetched)
    wait_for(lambda: all_ended(celery, 4), 40, "all tasks ran")
    assert launched(celery) == 1
    wait_until_gone(celery)
    assert_each_ran_once(celery, 4)


@over_rabbitmq
def test_a_task_that_waits_at_a_worker_for_its_time_keeps_the_machine(celery: Brokers, daemon: StartDaemon) -> None:
    celery.send(*tasks(1, 1, countdown=12))
    elastiq = daemon()
    worker_of(elastiq)
    wait_for(lambda: all_ended(celery, 1), 40, "it ran at its time")
    assert launched(celery) == 1
    wait_until_gone(celery)
    assert_each_ran_once(celery, 1)


@over_redis
def test_a_busy_worker_that_does_not_answer_is_not_idle(celery: Brokers, daemon: StartDaemon) -> None:
    celery.set_defaults(library=LIBRARIES[celery.kind], pool="solo", slots=1)
    elastiq = daemon(celery={"solo_pool": "yes"}, quota={"min_vms": 1}, elastiq={"idle_for_time_s": 1})
    worker_of(elastiq)
    celery.send(*tasks(1, 14))
    wait_for(lambda: celery.notes("started"), 20, "the task runs")
    node = wait_for(lambda: next(iter(elastiq.nodes("busy")), None), 20, "it is taken for busy")
    assert "does not answer" in json.dumps(node)
    elastiq.kill()  # and who knows nothing of it
    elastiq.start()
    wait_for(lambda: all_ended(celery, 1), 40, "the task ended")
    assert_each_ran_once(celery, 1)
    assert not celery.cloud.instances("terminated", "shutting-down")


@over_both
def test_a_broker_that_is_away_ends_nothing_and_loses_nothing(celery: Brokers, daemon: StartDaemon) -> None:
    # A Redis worker forgets what it has prefetched when its connection breaks, and cannot give it back.
    transport = {"visibility_timeout": 15}
    celery.set_defaults(library=LIBRARIES[celery.kind], transport=transport)
    celery.send(*tasks(4, 12))
    elastiq = daemon(quota={"max_vms": 2}, celery={"broker_transport_options": json.dumps(transport)})
    wait_for(lambda: len(celery.notes("started")) == 4, 30, "all run")
    celery.send(*tasks(4, 1, first=4))
    with celery.away():
        wait_for(lambda: "failed" in json.dumps(elastiq.status()["sources"]), 30, "the status says that it is away")
        alive = len(celery.cloud.alive())
        stays(lambda: len(celery.cloud.alive()) == alive, 4, "nothing is ended or launched")
    wait_for(lambda: all_ended(celery, 8), 60, "all tasks ran")
    wait_until_gone(celery)
    assert_each_ran_once(celery, 8)


@over_redis
def test_a_worker_that_died_is_replaced_and_its_task_runs_elsewhere(celery: Brokers, daemon: StartDaemon) -> None:
    transport = {"visibility_timeout": VISIBLE_S}
    celery.set_defaults(library=LIBRARIES[celery.kind], acks_late=True, transport=transport)
    celery.send(*tasks(1, 4))
    keys = {"broker_transport_options": json.dumps(transport), "gone_after_s": 2}
    elastiq = daemon(celery=keys, elastiq={"lost_after_s": 2})
    wait_for(lambda: celery.notes("started"), 30, "the task runs")
    (first,) = celery.cloud.alive()
    celery.worker(first["address"]).ask("pkill", "-KILL", "-f", "celery")
    wait_for(lambda: all_ended(celery, 1), 80, "the task ran on another machine")
    assert launched(celery) == 2
    assert celery.notes("started") == {"0": 2} and celery.notes("ended") == {"0": 1}
    wait_until_gone(celery, 60)
    assert elastiq.running


@over_redis
def test_tasks_that_come_while_machines_are_drained_are_neither_lost_nor_run_twice(
    celery: Brokers, daemon: StartDaemon
) -> None:
    daemon(elastiq={"idle_for_time_s": 0.5}, celery={"reply_timeout_s": 0.3})
    for number in range(8):
        celery.send(*tasks(1, 0.1, first=number))
        stays(lambda: True, (number * 0.77) % 3.1, "a while, which is another one each time", every_s=0.05)
    wait_for(lambda: all_ended(celery, 8), 60, "all tasks ran")
    wait_until_gone(celery)
    assert_each_ran_once(celery, 8)


@over_both
def test_the_oldest_kombu_tells_the_same_as_the_newest(celery: Brokers) -> None:
    celery.send(*tasks(3, 1), *tasks(2, 1, first=3, priority=9))
    request = {"do": "look", "url": celery.url, "options": {}, "ca_file": None, "namespace": "celery", "reply_s": 0.5,
               "timeout_s": 30, "queues": ["celery", "absent"], "known": ["celery@gone"]}  # fmt: skip
    newest = subprocess.run(
        celery.head.in_its_network([sys.executable, celery_helper.SERVER]),
        input=json.dumps(request) + "\n", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    for path in (celery_helper.SERVER, celery_helper.SERVER.with_name("celery_acts.py")):
        celery.head.put(f"/srv/helper/{path.name}", path.read_text())
    oldest = celery.head.run("python3", "/srv/helper/celery_server.py", stdin=json.dumps(request) + "\n")
    said = [json.loads(text) for text in (newest.stdout, oldest)]
    for one in said:
        del one["at"]
        if one.get("server"):
            del one["server"]["up_s"]
    assert said[0] == said[1]
    assert said[0]["queues"]["celery"][0] == 5
    if celery.kind == "redis":
        assert "reply" not in celery.redis("keys", "*"), "no reply queue is left behind"
