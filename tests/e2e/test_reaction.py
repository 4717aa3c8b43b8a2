"""A job is seen when it is submitted: in each of these the next poll of the queue is ten minutes away."""

from __future__ import annotations

import signal

from tests.e2e.cluster import Cluster, stays, wait_for
from tests.e2e.conftest import StartDaemon
from tests.e2e.daemon import Daemon
from tests.e2e.rig import htcondor

POLL_S = 600
FAR = {"check_queue_every_s": POLL_S}
WITHIN_S = 60  # a poll would come much later


def started(daemon: StartDaemon, cluster: Cluster, **htcondor_keys: object) -> Daemon:
    """A daemon that has read everything, and machines that are still booting when the test ends."""
    cluster.ec2.behave(boot_s=POLL_S)
    elastiq = daemon(elastiq=FAR, htcondor=htcondor_keys)
    wait_for(lambda: "no job waits" in elastiq.log(), 30, "both sides are read")
    return elastiq


def launched(cluster: Cluster, machines: int) -> None:
    wait_for(lambda: len(cluster.launch_calls()) == machines, WITHIN_S, f"machine {machines} is asked for")


def test_a_machine_is_asked_for_long_before_the_next_poll(cluster: Cluster, daemon: StartDaemon) -> None:
    started(daemon, cluster)
    for number in (1, 2, 3):
        cluster.submit(1, 1, "request_cpus = 4")
        launched(cluster, number)


def test_a_schedd_that_compacts_its_log_and_restarts_is_watched_on(cluster: Cluster, daemon: StartDaemon) -> None:
    elastiq = started(daemon, cluster)
    cluster.submit(1, 1, "request_cpus = 4")
    launched(cluster, 1)
    htcondor.restart_schedd()
    cluster.submit(1, 1, "request_cpus = 4")
    launched(cluster, 2)
    assert "only polled" not in elastiq.log()


def test_where_the_queue_is_not_watched_a_signal_makes_elastiq_look(cluster: Cluster, daemon: StartDaemon) -> None:
    elastiq = started(daemon, cluster, watch_queue="no")
    cluster.submit(1, 1)
    stays(lambda: not cluster.launch_calls(), 3, "nobody has told it")
    elastiq.signal(signal.SIGURG)
    launched(cluster, 1)
