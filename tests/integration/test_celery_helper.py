"""The Celery plugin through its helper process, kombu and a socket, where something is not as it should be."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from elastiq.coprocess import Coprocess
from elastiq.interfaces import DrainMode, DrainOutcome, Owner, SourceError, WorkerState
from elastiq.plugins.batch.celery import Celery
from elastiq.plugins.batch.celery_helper import SERVER, NoKombu
from tests.integration.certificates import Authority
from tests.integration.fake_celery import FakeBroker
from tests.looks import by_subject, levels

OWNER = Owner("test", "0123456789abcdef0123")
W1, HOST = "celery@ip-10-0-0-1", "ip-10-0-0-1"
MakeBroker = Callable[..., FakeBroker]
SHARED = [Coprocess((sys.executable, str(SERVER)))]


@pytest.fixture
def made() -> Iterator[MakeBroker]:
    brokers: list[FakeBroker] = []

    def make(**more: Any) -> FakeBroker:
        brokers.append(FakeBroker(**more))
        return brokers[-1]

    yield make
    for one in brokers:
        one.close()


@pytest.fixture
def broker(made: MakeBroker) -> FakeBroker:
    return made()


def celery(broker: FakeBroker, **keys: Any) -> Celery:
    values = {option.name: option.default for option in Celery.OPTIONS}
    transport = {"polling_interval": 0.02, **keys.pop("transport", {})}
    values.update(broker_url=broker.url, broker_transport_options=json.dumps(transport), reply_timeout_s=1.0)
    made = Celery.from_config({**values, **keys}, OWNER)
    made.helper.processes = SHARED  # to start one takes half a second
    return made


def helper_of(batch: Celery) -> subprocess.Popen[bytes]:
    """The process that waits for requests."""
    child = batch.helper.processes[0]._idle
    assert child is not None
    return child.process


# --------------------------------------------------------------------------- secrets


def test_a_wrong_password_is_an_error_that_does_not_tell_it(broker: FakeBroker) -> None:
    broker.password = "correct"
    batch = celery(broker, broker_url=broker.url.replace("correct", "t0psecret%2F"))
    with pytest.raises(SourceError) as caught:
        batch.jobs()
    assert "t0psecret" not in str(caught.value) and "assword" in str(caught.value)


def test_a_library_that_tells_the_url_is_not_passed_on(broker: FakeBroker) -> None:
    batch = celery(broker, broker_url="redis://:t0psecret%2F@127.0.0.1:1/0")
    tells = "import sys, json\nfor line in sys.stdin: print(json.dumps({'error': json.loads(line)['url']}), flush=True)"
    batch.helper.processes = [Coprocess((sys.executable, "-c", tells))]
    with pytest.raises(SourceError) as caught:
        batch.jobs()
    assert str(caught.value) == "reading the queues failed: ***"


def test_the_password_is_in_no_title_and_no_environment(broker: FakeBroker) -> None:
    broker.password = "t0psecret"
    batch = celery(broker)
    batch.jobs()
    process = Path(f"/proc/{helper_of(batch).pid}")
    assert b"celery_server.py" in (process / "cmdline").read_bytes()
    assert b"t0psecret" not in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()


def test_a_password_that_is_changed_in_its_file_is_used_at_once(broker: FakeBroker, tmp_path: Path) -> None:
    file = tmp_path / "url"
    batch = celery(broker, broker_url=None, broker_url_file=str(file))
    for password in ("first", "second"):
        broker.password = password
        file.write_text(broker.url)
        assert batch.jobs().complete


def test_the_arguments_of_tasks_do_not_leave_the_helper(broker: FakeBroker) -> None:
    worker = broker.add_worker(W1, "10.0.0.1")
    for state in worker.tasks:
        broker.start(worker, state)
    assert "secret" not in json.dumps(celery(broker).look("looking"))


def of_tls(authority: Authority, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server(*names))
    return context


def test_a_broker_behind_tls_is_asked_if_its_certificate_is_true(made: MakeBroker, tmp_path: Path) -> None:
    broker = made(tls=of_tls(Authority(tmp_path), "127.0.0.1"))
    broker.send(count=2)
    (group,) = celery(broker, broker_ca_file=str(tmp_path / "Site CA.pem")).jobs().groups
    assert group.waiting == 2
    with pytest.raises(SourceError, match="certificate verify failed"):
        celery(broker).jobs()


def test_a_certificate_of_another_host_is_not_trusted(made: MakeBroker, tmp_path: Path) -> None:
    broker = made(tls=of_tls(Authority(tmp_path), "elsewhere.example.org"))
    with pytest.raises(SourceError, match="certificate verify failed"):
        celery(broker, broker_ca_file=str(tmp_path / "Site CA.pem")).jobs()


@pytest.mark.parametrize(
    ("name", "trusted", "said"),
    [("127.0.0.1", True, ""), ("127.0.0.1", False, "certificate verify failed"), ("other", True, "certificate verify")],
)
def test_rabbitmq_behind_tls_is_trusted_by_the_same_rules(
    made: MakeBroker, tmp_path: Path, name: str, trusted: bool, said: str
) -> None:
    # What answers is no RabbitMQ: that shows when its certificate was taken.
    broker = made(tls=of_tls(Authority(tmp_path), name))
    keys = {"broker_ca_file": str(tmp_path / "Site CA.pem")} if trusted else {}
    with pytest.raises(SourceError) as caught:
        celery(broker, broker_url=broker.url.replace("rediss://", "amqps://"), **keys).jobs()
    assert ("certificate" in str(caught.value)) == bool(said) and said in str(caught.value)


# --------------------------------------------------------------------------- the broker is left as it was


def test_overdue_tasks_of_others_are_not_given_back_by_looking(broker: FakeBroker) -> None:
    worker = broker.add_worker(W1, "10.0.0.1")
    number = broker.start(worker)
    broker.delivered_at[number] = time.time() - 100_000
    # When nothing comes for a while, kombu looks for what is overdue.
    broker.forbidden, broker.blocks_s = {"CLIENT LIST"}, 1.0
    batch = celery(broker, transport={"visibility_timeout": 1, "polling_interval": 1}, reply_timeout_s=0.3)
    batch.workers()
    batch.drain(HOST, DrainMode.PEACEFUL)
    assert list(broker.unacked) == [number] and broker.lists.get("celery", []) == []


def test_no_reply_queue_stays_in_redis(broker: FakeBroker) -> None:
    broker.add_worker(W1, "10.0.0.1")
    batch = celery(broker)
    for _ in range(3):
        batch.workers()
    left = {key: members for key, members in broker.sets.items() if members and "permanent" not in key}
    assert left.keys() == {"_kombu.binding.celery.pidbox"} and not any(broker.lists.values())


# --------------------------------------------------------------------------- what the broker holds


def test_priorities_are_looked_at_with_the_steps_and_the_separator_that_workers_use(made: MakeBroker) -> None:
    broker = made(separator=":", prefix="app.")
    broker.send(count=2)
    broker.send(count=3, priority=5)
    broker.send(count=4, priority=6)
    broker.add_worker(W1, "10.0.0.1")
    batch = celery(broker, transport={"sep": ":", "priority_steps": [0, 5], "global_keyprefix": "app."})
    (group,) = batch.jobs().groups
    assert group.waiting == 5
    assert [one.state for one in batch.workers().workers] == [WorkerState.IDLE]
    assert batch.drain(HOST, DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED


def test_tasks_of_a_worker_that_vanished_are_demand_after_the_visibility_timeout(broker: FakeBroker) -> None:
    worker = broker.add_worker(W1, "10.0.0.1")
    young, old = broker.start(worker), broker.start(worker)
    broker.delivered_at[old] -= 200
    broker.kill(worker)
    batch = celery(broker, transport={"visibility_timeout": 100})
    counts = {bool(group.not_eligible): group.waiting for group in batch.jobs().groups}
    assert counts == {False: 1, True: 1}
    assert batch.jobs_on("ip-10-0-0-9") == (f"{young} (tasks.work)",), "who may have it"


@pytest.mark.parametrize("garbage", ["not json", "[1]", "{}"])
def test_an_unacknowledged_task_that_is_none_is_unknown_not_absent(broker: FakeBroker, garbage: str) -> None:
    broker.unacked["x"], broker.delivered_at["x"] = garbage, 1.0
    with pytest.raises(SourceError):
        celery(broker).jobs()


def test_a_task_is_found_where_it_is(broker: FakeBroker) -> None:
    worker = broker.add_worker(W1, "10.0.0.1")
    states = {state: broker.start(worker, state) for state in worker.tasks}
    broker.send(priority=9)
    batch = celery(broker)
    assert batch.find_job(states["active"])[1].endswith(f"runs at {W1}")
    assert "prefetched" in batch.find_job(states["reserved"])[1]
    (group, *_) = batch.jobs().groups
    assert batch.find_job(group.sample_job) == (
        group.key,
        f"task {group.sample_job} (tasks.work) waits in queue celery",
    )


def test_long_queues_and_many_unacknowledged_tasks_are_looked_through(broker: FakeBroker) -> None:
    worker = broker.add_worker(W1, "10.0.0.1")
    out = [broker.start(worker) for _ in range(250)]
    broker.kill(worker)
    broker.send(count=250)
    batch = celery(broker)
    assert len(batch.jobs_on("ip-10-0-0-9")) == len(out)
    youngest = json.loads(broker.lists["celery"][0])["headers"]["id"]
    oldest = json.loads(broker.lists["celery"][-1])["headers"]["id"]
    assert "waits in queue celery" in batch.find_job(youngest)[1]
    assert [group.sample_job for group in batch.jobs().groups if not group.not_eligible] == [oldest]


# --------------------------------------------------------------------------- workers


def test_where_the_acl_hides_who_is_connected_workers_are_seen_all_the_same(broker: FakeBroker) -> None:
    broker.forbidden = {"CLIENT LIST", "INFO"}
    broker.add_worker(W1, "10.0.0.1")
    batch = celery(broker)
    found = batch.workers()
    assert [one.state for one in found.workers] == [WorkerState.IDLE] and found.source_up_s is None
    assert by_subject(batch.checks())["broker"].level == "warning"


def test_a_worker_that_stops_in_order_is_gone(broker: FakeBroker) -> None:
    worker = broker.add_worker(W1, "10.0.0.1")
    batch = celery(broker, gone_after_s=0.0)
    assert len(batch.workers().workers) == 1
    broker.kill(worker, cleanly=True)
    assert batch.workers().workers == ()


def test_every_process_of_a_machine_is_closed_and_opened_again(broker: FakeBroker) -> None:
    one, two = (broker.add_worker(f"{name}@{HOST}", "10.0.0.1", queues=queues)
                for name, queues in (("w1", ["celery", "other"]), ("w2", ["big"])))  # fmt: skip
    batch = celery(broker)
    assert batch.drain(HOST, DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED
    mark = f"elastiq.{OWNER.mark}."
    assert (sorted(one.queues), two.queues) == ([f"{mark}celery", f"{mark}other"], [f"{mark}big"])
    celery(broker).undrain(HOST)
    assert (sorted(one.queues), two.queues) == (["celery", "other"], ["big"])


def test_a_process_that_does_not_answer_lets_no_drain_begin(broker: FakeBroker) -> None:
    one, two = (broker.add_worker(f"{name}@{HOST}", "10.0.0.1") for name in ("w1", "w2"))
    batch = celery(broker)
    batch.workers()
    two.answers = 0
    with pytest.raises(SourceError, match="w2@ip-10-0-0-1 does not answer"):
        batch.drain(HOST, DrainMode.IF_IDLE)
    assert one.queues == ["celery"]


def test_one_that_refuses_has_the_others_opened_again(broker: FakeBroker) -> None:
    one, two = (broker.add_worker(f"{name}@{HOST}", "10.0.0.1") for name in ("w1", "w2"))
    two.refuses = True
    answer = celery(broker).drain(HOST, DrainMode.PEACEFUL)
    assert answer.outcome is DrainOutcome.REFUSED and "w2@ip-10-0-0-1 refuses add_consumer" in answer.detail
    assert one.queues == two.queues == ["celery"]


def test_what_another_elastiq_closed_is_left_alone(broker: FakeBroker) -> None:
    worker = broker.add_worker(W1, "10.0.0.1")
    celery(broker).drain(HOST, DrainMode.IF_IDLE)
    theirs = Celery.from_config(celery(broker).helper._values, Owner("test", "f" * 32))
    assert theirs.drain(HOST, DrainMode.IF_IDLE).outcome is DrainOutcome.REFUSED
    with pytest.raises(SourceError, match="another elastiq"):
        theirs.undrain(HOST)
    assert worker.queues == [f"elastiq.{OWNER.mark}.celery"]


# --------------------------------------------------------------------------- the helper process


def test_a_helper_that_was_killed_is_replaced(broker: FakeBroker) -> None:
    batch = celery(broker)
    batch.jobs()
    helper_of(batch).kill()
    helper_of(batch).wait(30)
    assert batch.jobs().complete


def test_where_no_python_has_kombu_it_says_what_to_install(broker: FakeBroker) -> None:
    import sys

    batch = celery(broker)
    batch.helper.processes = [Coprocess((sys.executable, "-S", str(SERVER))), Coprocess(("/no/such/python", "x"))]
    with pytest.raises(NoKombu, match="pip install"):
        batch.jobs()
    assert by_subject(batch.checks())["kombu"].level == "error"


# --------------------------------------------------------------------------- checks


def test_checks_of_a_broker_and_workers_in_order_are_ok(broker: FakeBroker) -> None:
    broker.add_worker(W1, "10.0.0.1")
    assert set(levels(celery(broker).checks()).values()) == {"ok"}


@pytest.mark.parametrize(
    ("subject", "level", "keys", "name", "worker"),
    [
        ("names of workers", "error", {}, "celery@node17", {}),
        ("prefetching", "warning", {}, W1, {"prefetch": 16}),
        ("pools of workers", "error", {}, W1, {"solo": True}),
        ("workers", "error", {}, W1, {"answers": 2}),
        ("queues", "warning", {}, W1, {"queues": ["celery", "unheard-of"]}),
    ],
)
def test_a_check_tells_what_is_wrong(
    broker: FakeBroker, subject: str, level: str, keys: Any, name: str, worker: Any
) -> None:
    broker.add_worker(name, "10.0.0.1", **worker)
    check = by_subject(celery(broker, **keys).checks())[subject]
    assert (check.level, bool(check.remedy)) == (level, True)


def test_without_a_worker_it_is_unknown_what_workers_are_like(broker: FakeBroker) -> None:
    told = levels(celery(broker).checks())
    unknown = {subject for subject, level in told.items() if level == "unknown"}
    assert unknown == {"names of workers", "prefetching", "pools of workers", "drain"}


def test_a_file_of_the_url_that_is_open_to_all_is_told(broker: FakeBroker, tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(broker.url)
    batch = celery(broker, broker_url=None, broker_url_file=str(file))
    for mode, level in ((0o644, "warning"), (0o640, "ok")):
        file.chmod(mode)
        assert levels(batch.checks())["secrets"] == level
