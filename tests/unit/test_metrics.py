"""Metrics of a daemon: read while it decides, and while it hangs."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from elastiq import config, metrics
from elastiq.commanding import start
from elastiq.daemon import Daemon
from elastiq.interfaces import CapacityError, InstanceState, WorkerState
from elastiq.metrics.families import FAMILIES, Values
from elastiq.metrics.meter import FACT, LISTEN_AGAIN_S, PUBLISH_S, STORE_S, Meter, meter_of
from elastiq.metrics.values import ERRORS, STATES
from elastiq.nodes import State
from elastiq.protocol import Refused
from elastiq.status import snapshot
from tests.unit.fakes import UNREACHABLE
from tests.unit.test_config_example import EXAMPLE
from tests.unit.test_daemon import Rig
from tests.unit.test_daemon_status import running
from tests.unit.values import a_node, a_pool, a_worker, an_instance, group
from tests.waiting import PATIENCE_S, free_port


def seen(rig: Rig) -> Values:
    meter = meter_of(rig.daemon)
    meter.publish()
    return meter.read()


def value(values: Values, name: str, *labels: str) -> Any:
    return values[f"elastiq_{name}"][labels]


def scraped(port: int, **headers: str) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        body: bytes = answer.read()
    return body.decode()


@contextlib.contextmanager
def hung(daemon: Daemon) -> Iterator[None]:
    """Its loop is held in a handler."""
    held, go_on = threading.Event(), threading.Event()
    daemon.core.events.post(lambda: (held.set(), go_on.wait(600)))
    assert held.wait(PATIENCE_S)
    try:
        yield
    finally:
        go_on.set()


# --------------------------------------------------------------------------- what is seen


def test_what_is_not_known_has_no_value() -> None:
    rig = Rig()
    found = seen(rig)
    assert "elastiq_jobs_waiting" not in found and found["elastiq_observation_age_seconds"] == {}
    assert value(found, "observation_known", "queue", "") == 0
    rig.batch.script.answers["jobs"] = type(rig.batch.jobs())((group(waiting=8),))
    rig.answer()
    assert value(seen(rig), "jobs_waiting", "ec2", "launching") == 8
    for pending in list(rig.executor.reads("queue")):
        pending.fail(UNREACHABLE)
    rig.run(20)
    for pending in list(rig.executor.reads("queue")):
        pending.fail(UNREACHABLE)
    found = seen(rig)
    assert "elastiq_jobs_waiting" not in found, "unknown is not empty"
    assert value(found, "observation_failures", "queue", "") >= 1


def test_machines_are_counted_by_pool_and_state_and_what_is_not_there_is_0() -> None:
    rig = Rig(a_node(State.BUSY, 1), a_node(State.BUSY, 2), a_node(State.DRAINING, 3, pool="gone"))
    found = seen(rig)
    assert value(found, "nodes", "ec2", "busy") == 2
    assert value(found, "nodes", "ec2", "booting") == 0
    assert value(found, "nodes", "gone", "draining") == 1
    assert value(found, "jobs_running", "ec2") == 8
    assert (value(found, "nodes_counted"), value(found, "nodes_max")) == (3, 10)


def test_an_unlimited_quota_has_no_value() -> None:
    assert "elastiq_nodes_max" not in seen(Rig(max_vms=None))


def test_the_state_is_one_of_those_that_are_named() -> None:
    rig = Rig(launch=False)
    rig.batch.set_workers(a_worker("w1", WorkerState.IDLE))
    assert sum(found := seen(rig)["elastiq_state"].values()) == 1 and len(found) == len(STATES)  # type: ignore[arg-type]
    assert snapshot(rig.daemon)["state"] in STATES
    assert value(seen(rig), "act_allowed", "launch") == 0
    assert value(seen(rig), "act_allowed", "terminate") == 1


def test_prices_make_a_cost() -> None:
    stopped = a_node(State.STOPPED, 2, instance=an_instance("i-2", InstanceState.STOPPED))
    rig = Rig(a_node(State.BUSY, 1), stopped, pools=(a_pool(prices={"*": 0.25}),))
    assert value(seen(rig), "cost_per_hour", "ec2") == 0.25
    assert "elastiq_cost_per_hour" not in seen(Rig(a_node(State.BUSY, 1)))


def test_what_is_held_back_is_seen() -> None:
    rig = Rig(pools=(a_pool(flavours=("medium", "large")),))
    seen(rig)
    rig.batch.script.answers["jobs"] = type(rig.batch.jobs())((group(waiting=1),))
    rig.answer()
    rig.executor.only("cloud").fail(CapacityError("no more"))
    rig.run(PUBLISH_S)
    found = seen(rig)
    assert (value(found, "pool_offers", "ec2"), value(found, "pool_offers_held_back", "ec2")) == (2, 1)
    assert value(found, "errors_total", "launch") == 1
    assert value(found, "failures_total", "ec2", "launch") == 1
    assert value(found, "call_errors_total", "cloud", "aws", "launch", "CapacityError") == 1


def test_every_counter_of_errors_is_one_that_the_daemon_counts() -> None:
    sources = [*Path("elastiq").glob("*.py"), *Path("elastiq").glob("*/*.py")]
    code = "".join(path.read_text("utf-8") for path in sources if path.parent.name != "metrics")
    for name in ERRORS:
        prefix = name[: len("drains_")] if name.startswith("drains_") else name
        assert f'count("{name}"' in code or f'count(f"{prefix}' in code, name


def test_all_that_is_filled_is_declared_with_its_labels() -> None:
    rig = Rig(a_node(State.BUSY, 1), max_launches_per_hour=5)
    rig.answer()
    rig.run(PUBLISH_S)
    for name, rows in seen(rig).items():
        assert {len(labels) for labels in rows} <= {len(FAMILIES[name].labels)}, name


def test_the_clouds_tell_of_their_requests_also_after_a_reload() -> None:
    rig = Rig()
    told: list[Any] = []
    rig.cloud.watch = told.append  # type: ignore[method-assign, assignment]
    meter = meter_of(rig.daemon)
    rig.run(3 * PUBLISH_S)
    assert len(told) == 1
    rig.core.clouds = dict(rig.core.clouds)
    rig.run(3 * PUBLISH_S)
    assert len(told) == 2
    told[1]("RunInstances", "InsufficientInstanceCapacity", 1)
    meter.publish()
    assert value(meter.read(), "api_errors_total", "aws", "RunInstances", "InsufficientInstanceCapacity") == 1


# --------------------------------------------------------------------------- what is kept


def test_counts_go_on_after_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    rig = Rig(store_path=path)
    rig.batch.script.answers["jobs"] = type(rig.batch.jobs())((group(waiting=1),))
    seen(rig)
    rig.answer()
    rig.executor.only("cloud").finish()
    rig.run(STORE_S + PUBLISH_S)
    assert value(seen(rig), "launches_total", "ec2") == 1
    assert rig.store.recall(FACT)["machines"]
    before = value(seen(rig), "machine_seconds_total", "ec2")
    rig.store.close()
    again = Rig(store_path=path)
    assert value(seen(again), "launches_total", "ec2") == 1
    assert value(seen(again), "machine_seconds_total", "ec2") >= before or again.clock.time() < rig.clock.time()


def test_counts_that_make_no_sense_are_counted_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.core.record("launch", "abc", "ec2", "3 of ec2/medium: x")
    rig.store.remember(FACT, {"number": 7})
    assert value(seen(rig), "launches_asked_total", "ec2") == 3
    assert "cannot be used" in caplog.text


def test_a_store_that_cannot_be_read_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from elastiq.store import StoreError

    rig = Rig()
    meter = meter_of(rig.daemon)

    def broken(*_: Any) -> Any:
        raise StoreError("disk")

    monkeypatch.setattr(rig.store, "read", broken)
    rig.run(3 * PUBLISH_S + 1)
    assert rig.core.faults == {} and meter.published.at == rig.now() - 1


# --------------------------------------------------------------------------- the loop is not held


def test_a_loop_that_hangs_still_answers_with_what_was_seen_last() -> None:
    with running() as daemon:
        service: Any = SimpleNamespace(daemon=daemon, events=daemon.core.events)
        first = start(service, "metrics", {}).result(PATIENCE_S)["text"]
        with hung(daemon):
            second = start(service, "metrics", {}).result(PATIENCE_S)["text"]
        at = [line for line in first.splitlines() if line.startswith("elastiq_published_timestamp_seconds")]
        assert at == [line for line in second.splitlines() if line.startswith("elastiq_published_timestamp_seconds")]


def test_a_loop_that_hangs_before_anybody_asked_is_said_so() -> None:
    with running() as daemon, hung(daemon), pytest.raises(Refused, match="does not answer"):
        metrics.answer(daemon, {})


def test_the_port_is_served_while_the_loop_hangs_and_ages_grow() -> None:
    port = free_port()
    with running() as daemon:
        published = threading.Event()

        def serve() -> None:
            daemon.observer.jobs.succeeded(daemon.core.now(), daemon.core.batch.jobs())
            metrics.follow(daemon, {"listen": f"127.0.0.1:{port}"})
            published.set()

        daemon.core.events.post(serve)
        assert published.wait(PATIENCE_S)
        with hung(daemon):
            ages = []
            for _ in range(2):
                found = {
                    sample.name + str(sorted(sample.labels.values())): sample.value
                    for family in text_string_to_metric_families(scraped(port))
                    for sample in family.samples
                }
                ages.append(found["elastiq_observation_age_seconds['', 'queue']"])
                time.sleep(0.01)
        assert ages[0] < ages[1]


def test_who_scrapes_a_lot_gives_the_loop_nothing_to_do() -> None:
    rig = Rig()
    port = free_port()
    metrics.follow(rig.daemon, {"listen": f"127.0.0.1:{port}"})
    before = meter_of(rig.daemon).published
    assert {scraped(port).count("# TYPE") for _ in range(20)} != {0}
    assert meter_of(rig.daemon).published is before and rig.events._inbox.empty()
    metrics.follow(rig.daemon, None)


def test_scrapers_get_the_form_that_they_ask_for() -> None:
    rig, port = Rig(), free_port()
    metrics.follow(rig.daemon, {"listen": f"127.0.0.1:{port}"})
    assert "# EOF" not in scraped(port)
    assert scraped(port, Accept="application/openmetrics-text; version=1.0.0").endswith("# EOF\n")
    metrics.follow(rig.daemon, None)


def test_clients_that_say_nothing_do_not_keep_others_out() -> None:
    rig, port = Rig(), free_port()
    metrics.follow(rig.daemon, {"listen": f"127.0.0.1:{port}"})
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
        assert "elastiq_nodes" in scraped(port)
    metrics.follow(rig.daemon, None)


# --------------------------------------------------------------------------- the port and its section


def test_a_port_in_use_is_one_notice_and_is_tried_again() -> None:
    rig = Rig()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        metrics.follow(rig.daemon, {"listen": f"127.0.0.1:{port}"})
        assert "not served" in rig.core.notices["metrics"] and "in use" in rig.core.notices["metrics"]
        rig.run(3 * LISTEN_AGAIN_S)
    rig.run(2 * LISTEN_AGAIN_S)
    assert "metrics" not in rig.core.notices and "elastiq_nodes" in scraped(port)
    metrics.follow(rig.daemon, None)


def test_another_address_takes_the_place_of_the_first() -> None:
    rig, first, second = Rig(), free_port(), free_port()
    metrics.follow(rig.daemon, {"listen": f"127.0.0.1:{first}"})
    metrics.follow(rig.daemon, {"listen": f"127.0.0.1:{first}"})
    metrics.follow(rig.daemon, {"listen": f"127.0.0.1:{second}"})
    assert "elastiq_nodes" in scraped(second)
    metrics.follow(rig.daemon, None)
    for port in (first, second):
        end = time.monotonic() + PATIENCE_S
        with pytest.raises(OSError):
            while time.monotonic() < end:
                scraped(port)


def test_without_prometheus_client_it_is_one_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "elastiq.metrics.port", raising=False)
    metrics.follow(rig.daemon, {"listen": "127.0.0.1:9797"})
    assert rig.core.notices["metrics"].endswith(f"needs prometheus-client: {metrics.how_to_install()}")
    assert "elastiq_nodes" in metrics.answer(rig.daemon, {})["text"], "the command needs none"


@pytest.mark.parametrize("listen", ["9797", "head.example:9797", "127.0.0.1", "127.0.0.1:0", "::1:9797", "127.0.0.1:x"])
def test_what_is_no_address_is_refused(listen: str) -> None:
    assert "127.0.0.1:9797" in metrics.check_listen(listen)


@pytest.mark.parametrize("listen", ["127.0.0.1:9797", "[::1]:9797", "localhost:9797", "0.0.0.0:9797"])
def test_addresses(listen: str) -> None:
    assert metrics.check_listen(listen) == ""


def test_the_section_of_the_example_loads(tmp_path: Path) -> None:
    path = tmp_path / "elastiq.conf"
    text = EXAMPLE.read_text("utf-8").replace("#   [metrics]\n#   listen", "[metrics]\nlisten")
    path.write_text(text, "utf-8")
    assert config.load(path).settings.extras == {"metrics": {"listen": "127.0.0.1:9797"}}


def test_a_daemon_that_nobody_asks_counts_nothing() -> None:
    rig = Rig()
    rig.pass_time(60.0)
    assert rig.core.listeners == [] and rig.core.executor is rig.executor


def test_asking_twice_is_one_meter() -> None:
    rig = Rig()
    metrics.answer_now = None  # type: ignore[attr-defined]
    assert meter_of(rig.daemon) is meter_of(rig.daemon)
    assert [type(one) for one in rig.core.listeners] == [Meter]
