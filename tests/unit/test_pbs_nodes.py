"""What Torque and PBS Pro show of their nodes comes out as workers, and no busy one as idle."""

from __future__ import annotations

import pytest

from elastiq.interfaces import Resources, Worker, WorkerState
from elastiq.plugins.batch.pbs_nodes import any_up, by_host, cores_in_use, jobs, worker
from elastiq.plugins.batch.pbs_rows import Record, from_json, from_xml

STATUS = "rectime=1527799181,jobs=9.s\n 8.s,state=free,ncpus=4,physmem=8388608kb,availmem=1kb,uname=Linux w1 4.9"
CAPTURED = (
    "<Data><Node><name>ip-10-0-76-39</name><state>free</state><power_state>Running</power_state><np>4</np>"
    f"<ntype>cluster</ntype><status>{STATUS}</status><mom_service_port>15002</mom_service_port></Node>"
    "<Node><name>ip-10-0-76-40</name><state>down,offline,MOM-list-not-sent</state><np>1</np></Node>"
    "<Node><name>head</name><state>down,offline</state><np>1000</np><note>MasterServer</note></Node></Data>"
)
VNODES = """{"timestamp":1,"pbs_version":"20.0.1","pbs_server":"s","nodes":{
    "big":{"Mom":"big.example.org","state":"free","resources_available":{"host":"big","ncpus":0,"mem":"0kb"},
        "resources_assigned":{},"comment":"in the cellar"},
    "big[0]":{"Mom":"big.example.org","state":"job-busy","jobs":["17[2].s","17[2].s","3.s"],
        "resources_available":{"host":"big","ncpus":8,"mem":"16gb","ngpus":2},
        "resources_assigned":{"ncpus":8,"mem":"4194304kb"}},
    "big[1]":{"Mom":"big.example.org","state":"free","resources_available":{"host":"big","ncpus":8,"mem":"16777216kb"},
        "resources_assigned":{}}
}}"""


def node(**attributes: str) -> Record:
    return Record("w1", {"state": "free", "np": "4", **attributes})


def seen(*nodes: Record) -> Worker:
    return worker("w1", nodes)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1/7.s,2/8.s,0,3/9.s", ["7.s", "8.s", "9.s"]),
        ("0-1/7.s", ["7.s"]),
        ("0-1,3/7.s,2/8.s", ["7.s", "8.s"]),
        ("0/136.srv, 1/136.srv, 2/137.srv", ["136.srv", "137.srv"]),
        ("17[2].srv/0, 17[2].srv/1, 17[3].srv/0", ["17[2].srv", "17[3].srv"]),
        ("12.srv", ["12.srv"]),
        ("", []),
    ],
)
def test_jobs_are_told_from_the_cores_that_they_have(text: str, names: list[str]) -> None:
    assert jobs(node(jobs=text)) == names


@pytest.mark.parametrize(
    ("text", "cores"), [("1/7.s,2/8.s,0,3/9.s", 4), ("0-2/7.s,4/8.s", 4), ("0/1.s, 1/1.s", 2), ("", 0)]
)
def test_cores_of_torque_are_counted(text: str, cores: int) -> None:
    assert cores_in_use(node(jobs=text)) == cores


def test_a_free_node_with_room_is_idle_and_one_with_a_job_is_busy() -> None:
    assert (seen(node()).state, seen(node()).free.cpus) == (WorkerState.IDLE, 4)
    busy = seen(node(jobs="0/7.s"))
    assert (busy.state, busy.jobs, busy.free.cpus) == (WorkerState.BUSY, 1, 3)


@pytest.mark.parametrize(
    "state", ["down", "down,offline", "state-unknown,down", "down,job-exclusive", "unresolvable,down"]
)
def test_a_node_of_which_nothing_is_heard_is_no_worker(state: str) -> None:
    assert not any_up([node(state=state)])


def test_a_captured_answer_of_torque_has_one_worker() -> None:
    hosts = by_host(from_xml(CAPTURED, "pbsnodes", "Node", "name"))
    up = [name for name, nodes in hosts.items() if any_up(nodes)]
    assert up == ["ip-10-0-76-39"]
    found = worker("ip-10-0-76-39", hosts["ip-10-0-76-39"])
    # what the MOM says of itself in `status`, jobs and state too, is not what the server says of the node
    assert (found.state, found.jobs, found.total) == (WorkerState.IDLE, 0, Resources(4.0, 8192, gpus=0.0))
    assert found.addresses == {"10.0.76.39"}


@pytest.mark.parametrize("state", ["job-exclusive", "job-exclusive,busy", "job-sharing", "job-busy"])
def test_a_node_that_says_so_is_busy_though_no_job_is_listed(state: str) -> None:
    found = seen(node(state=state))
    assert (found.state, found.jobs, found.free.cpus) == (WorkerState.BUSY, 1, 0)


@pytest.mark.parametrize(
    "state", ["busy", "reserve", "resv-exclusive", "provisioning", "<various>", "strange", "free,busy", ""]
)
def test_a_node_in_any_other_state_is_neither_idle_nor_busy(state: str) -> None:
    assert seen(node(state=state)).state is WorkerState.OTHER
    assert seen(node(state=state, jobs="0/7.s")).state is WorkerState.BUSY


def test_a_node_that_is_powered_down_is_not_idle() -> None:
    assert seen(node(power_state="Running")).state is WorkerState.IDLE
    asleep = seen(node(power_state="Standby"))
    assert (asleep.state, asleep.detail) == (WorkerState.OTHER, "free, power standby")


def test_an_offline_node_is_drained_and_says_by_whom() -> None:
    ours = seen(node(state="offline", note="elastiq 0123 drains it"))
    assert (ours.state, ours.drained_by) == (WorkerState.DRAINED, "elastiq 0123 drains it")
    theirs = seen(node(state="offline", comment="new disk"))
    assert theirs.drained_by_mark("0123") is False
    nobodys = seen(node(state="offline"))
    assert nobodys.drained_by == "" and nobodys.drained_by_mark("0123") is False


def test_an_offline_node_with_jobs_is_still_draining() -> None:
    for state in ("offline", "free,offline", "job-exclusive,offline"):
        found = seen(node(state=state, jobs="0/7.s"))
        assert (found.state, found.jobs) == (WorkerState.DRAINING, 1)


def test_a_note_of_a_node_that_is_not_offline_is_no_drain() -> None:
    assert seen(node(note="elastiq 0123 drains it")).drained_by is None


def test_vnodes_of_a_host_are_one_worker_and_its_jobs_count_once() -> None:
    hosts = by_host(from_json(VNODES, "pbsnodes", "nodes"))
    assert list(hosts) == ["big"]
    found = worker("big", hosts["big"])
    assert (found.state, found.jobs) == (WorkerState.BUSY, 2)
    assert found.total == Resources(16.0, 32768, gpus=2.0)
    assert found.free == Resources(8.0, 16384, gpus=0.0)  # of the vnode that is full, nothing


def test_a_host_is_drained_only_if_all_its_vnodes_are() -> None:
    one = Record("big[0]", {"state": "offline", "comment": "x", "resources_available.host": "big"})
    other = Record("big[1]", {"state": "free", "resources_available.host": "big"})
    assert worker("big", [one, other]).state is WorkerState.OTHER
    assert worker("big", [one, one]).state is WorkerState.DRAINED


def test_a_vnode_that_its_mom_tells_nothing_of_any_more_does_not_count() -> None:
    stale = Record("big[9]", {"state": "stale", "resources_available.ncpus": "8"})
    good = Record("big", {"state": "free", "resources_available.ncpus": "4"})
    found = worker("big", [good, stale])
    assert (found.state, found.total.cpus) == (WorkerState.IDLE, 4)
    assert not any_up([stale])


def test_a_host_of_which_a_part_is_down_is_not_idle() -> None:
    down = Record("big[0]", {"state": "down"})
    assert worker("big", [Record("big", {"state": "free"}), down]).state is WorkerState.OTHER


def test_the_whole_name_of_a_node_is_kept_and_a_vnodes_is_its_hosts() -> None:
    whole = Record("W1.Example.ORG", {"resources_available.host": "w1"})
    alias = Record("node-a", {"resources_available.host": "w2"})
    assert list(by_host([whole, alias, Record("w3[0]", {}), Record("w3[1]", {})])) == ["w1.example.org", "w2", "w3"]


def test_what_is_not_said_of_a_node_stays_unsaid() -> None:
    found = seen(Record("w1", {"state": "free"}))
    assert found.total == Resources(gpus=0.0)
    assert seen(node(np="odd")).total.cpus is None
