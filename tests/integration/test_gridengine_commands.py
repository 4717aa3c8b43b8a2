"""The Grid Engine plugin and its commands: what it calls, and what it makes of what they say and do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Iterator

import pytest

from elastiq.errors import SourceError
from elastiq.interfaces import DrainMode, DrainOutcome, Instance, InstanceState, Owner, WorkerState
from elastiq.plugins.batch.gridengine import GridEngine
from tests.integration.fake_gridengine import FakeCluster
from tests.looks import found

OWNER = Owner("test", "0123456789abcdef0123", frozenset({"10.0.0.1"}))
MARK = f"@elastiq.{OWNER.mark}"
NAMES = {"node7": "10.0.0.7", "node8": "10.0.0.8", "head": "10.0.0.1"}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    made = FakeCluster(tmp_path / "cluster", names=dict(NAMES))
    monkeypatch.setenv("PATH", str(made.bin), prepend=":")
    yield made


def plugin(**values: Any) -> GridEngine:
    defaults = {option.name: option.default for option in GridEngine.OPTIONS}
    return GridEngine.from_config({**defaults, "command_timeout_s": 20.0, **values}, OWNER)


def instance(address: str = "10.0.0.7", pool: str = "ec2", flavour: str = "m5.large", name: str = "i-1") -> Instance:
    addresses = frozenset({address} if address else ())
    return Instance(name, InstanceState.RUNNING, addresses, pool=pool, flavour=flavour)


# --------------------------------------------------------------------------- commands


def test_the_commands_are_told_where_grid_engine_is(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("qhost", "qconf", "qping"):
        text = f"#!/bin/sh\nenv >{tmp_path}/{tool}\necho '<qhost><host name=\"global\"/></qhost>'\n"
        (folder / tool).write_text(text if tool == "qhost" else "#!/bin/sh\n")
        (folder / tool).chmod(0o755)
    batch = plugin(sge_root="/opt/sge", sge_cell="rig", qmaster_port=6544, execd_port=6545, bin_dir=str(folder))
    assert batch.workers().workers == ()
    seen = dict(line.split("=", 1) for line in (tmp_path / "qhost").read_text().splitlines() if "=" in line)
    wanted = {"SGE_ROOT": "/opt/sge", "SGE_CELL": "rig", "SGE_QMASTER_PORT": "6544", "SGE_EXECD_PORT": "6545"}
    assert {name: seen.get(name) for name in wanted} == wanted
    assert seen["LC_ALL"] == "C"


def test_a_dead_master_is_told_in_one_line(cluster: FakeCluster) -> None:
    cluster.once("jobs", "fail")
    with pytest.raises(SourceError) as caught:
        plugin().jobs()
    said = str(caught.value)
    assert "commlib error: got select error (Connection refused)" in said and "\n" not in said


def test_commands_that_are_not_there_are_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="bin_dir"):
        plugin(bin_dir=str(tmp_path)).workers()


def test_how_long_the_master_has_been_up_is_asked_of_itself(cluster: FakeCluster) -> None:
    batch = plugin()
    assert batch.workers().source_up_s == 5000
    batch.workers()
    assert [call for call in cluster.calls("qconf") if call == ["-sss"]] == [["-sss"]]
    assert cluster.calls("qping")[0][:2] == ["-info", "head"]
    cluster.once("qping", "fail")
    assert batch.workers().source_up_s is None
    cluster.load()["up_s"] = 3
    cluster.save()
    assert batch.workers().source_up_s == 3


def test_only_where_something_waits_it_is_asked_what_waits_for_its_time(cluster: FakeCluster) -> None:
    batch = plugin()
    batch.jobs()
    assert len(cluster.calls("qstat")) == 1
    cluster.submit(3)
    batch.jobs()
    assert ["-u", "*", "-s", "ha", "-xml"] in cluster.calls("qstat")


def test_the_limit_of_an_array_is_asked_once(cluster: FakeCluster) -> None:
    batch = plugin()
    cluster.submit(tasks="1-100:1", limit=7)
    cluster.submit(tasks="1-50:1")
    for _ in range(3):
        assert sum(group.waiting for group in batch.jobs().groups) == 57
    assert [call for call in cluster.calls("qstat") if "-j" in call] == [["-j", "1,2"]]


def test_a_parallel_environment_that_is_new_is_learned_at_once(cluster: FakeCluster) -> None:
    batch = plugin()
    cluster.submit(slots=4, pe="mpi")
    assert [(group.nodes, group.request.cpus) for group in batch.jobs().groups] == [(4, 1)]
    cluster.load()["pes"]["new"] = "$pe_slots"
    cluster.save()
    cluster.submit(slots=8, pe="new")
    assert {(group.nodes, group.request.cpus) for group in batch.jobs().groups} == {(4, 1), (1, 8)}


# --------------------------------------------------------------------------- names


def test_a_name_that_spells_its_address_is_not_looked_up(cluster: FakeCluster) -> None:
    cluster.add_host("ip-10-0-0-9.ec2.internal", "10.0.0.9")
    assert [worker.addresses for worker in plugin().workers().workers] == [{"10.0.0.9"}]
    assert not cluster.calls("getent")


def test_another_name_is_looked_up_once_and_one_without_an_address_again_later(cluster: FakeCluster) -> None:
    cluster.add_host("w1", "10.0.0.31")
    cluster.add_host("nameless", "10.0.0.32")
    del cluster.load()["names"]["nameless"]
    cluster.save()
    batch = plugin()
    for _ in range(3):
        assert {worker.name: worker.addresses for worker in batch.workers().workers} == {
            "w1": {"10.0.0.31"}, "nameless": frozenset(),
        }  # fmt: skip
    assert len(cluster.calls("getent")) == 2
    cluster.load()["names"]["nameless"] = "10.0.0.32"
    cluster.save()
    for _ in range(30):
        addresses = {worker.name: worker.addresses for worker in batch.workers().workers}
    assert addresses["nameless"] == {"10.0.0.32"}


# --------------------------------------------------------------------------- drains


def test_only_what_we_have_disabled_is_enabled_again(cluster: FakeCluster) -> None:
    cluster.load()["queues"].update({"gpu.q": ["@allhosts"], "test.q": ["@allhosts"]})
    cluster.save()
    cluster.add_host("w1", "10.0.0.31", states={"test.q": "d"})
    assert plugin().drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED
    (worker,) = plugin().workers().workers
    assert worker.drained_by_mark(OWNER.mark) is True
    assert {group for group, hosts in cluster.load()["groups"].items() if hosts == ["w1"]} == {
        "@allhosts", f"{MARK}.all.q", f"{MARK}.gpu.q",
    }  # fmt: skip
    plugin().undrain("w1")
    assert cluster.load()["hosts"]["w1"]["states"] == {"all.q": "", "gpu.q": "", "test.q": "d"}
    assert cluster.state["groups"][f"{MARK}.all.q"] == []


def test_what_a_person_has_disabled_is_refused_and_left_alone(cluster: FakeCluster) -> None:
    cluster.add_host("w1", "10.0.0.31", states={"all.q": "d"})
    batch = plugin()
    answer = batch.drain("w1", DrainMode.IF_IDLE)
    assert answer.outcome is DrainOutcome.REFUSED and "somebody else" in answer.detail
    with pytest.raises(SourceError, match="not disabled by us"):
        batch.undrain("w1")
    (worker,) = batch.workers().workers
    assert worker.drained_by_mark(OWNER.mark) is False
    assert not cluster.calls("qmod")


def test_another_heads_drain_is_known_as_his(cluster: FakeCluster) -> None:
    cluster.add_host("w1", "10.0.0.31")
    other = Owner("test", "fedcba9876543210fedc")
    values = {option.name: option.default for option in GridEngine.OPTIONS}
    GridEngine.from_config(values, other).drain("w1", DrainMode.IF_IDLE)
    batch = plugin()
    (worker,) = batch.workers().workers
    assert worker.drained_by == f"elastiq {other.mark}" and worker.drained_by_mark(OWNER.mark) is False
    with pytest.raises(SourceError):
        batch.undrain("w1")


def test_a_drain_that_is_not_allowed_leaves_no_mark(cluster: FakeCluster) -> None:
    cluster.add_host("w1", "10.0.0.31")
    cluster.load()["may_change"] = False
    cluster.save()
    answer = plugin().drain("w1", DrainMode.IF_IDLE)
    assert answer.outcome is DrainOutcome.REFUSED and "must be manager" in answer.detail
    assert not [group for group in cluster.load()["groups"] if group.startswith(MARK)]


def test_a_drain_whose_command_fails_is_undone(cluster: FakeCluster) -> None:
    cluster.add_host("w1", "10.0.0.31")
    cluster.once("drain", "fail")
    with pytest.raises(SourceError, match="commlib"):
        plugin().drain("w1", DrainMode.IF_IDLE)
    assert cluster.load()["groups"][f"{MARK}.all.q"] == []
    assert plugin().workers().workers[0].state is WorkerState.IDLE


def test_a_mark_that_a_crash_has_left_is_taken_away_before_the_next_act(cluster: FakeCluster) -> None:
    cluster.add_host("w1", "10.0.0.31")
    cluster.add_host("w2", "10.0.0.32")
    cluster.load()["groups"][f"{MARK}.all.q"] = ["w1"]  # and then it was killed
    cluster.save()
    batch = plugin()
    assert {worker.state for worker in batch.workers().workers} == {WorkerState.IDLE}
    batch.drain("w2", DrainMode.IF_IDLE)
    assert cluster.load()["groups"][f"{MARK}.all.q"] == ["w2"]
    cluster.change("w1", states={"all.q": "d"})  # by a person
    by = {worker.name: worker.drained_by_mark(OWNER.mark) for worker in batch.workers().workers}
    assert by == {"w1": False, "w2": True}


def test_marks_are_read_only_where_something_is_disabled(cluster: FakeCluster) -> None:
    cluster.add_host("w1", "10.0.0.31")
    batch = plugin()
    for _ in range(3):
        batch.workers()
    assert len([call for call in cluster.calls("qconf") if call == ["-shgrpl"]]) == 1


# --------------------------------------------------------------------------- registration


def test_a_new_host_is_put_where_the_keys_say(cluster: FakeCluster) -> None:
    batch = plugin(
        hostgroups=("@allhosts", "@pool_%pool%", "@%flavour%"),
        complex_values=("m5.large: slots=2, h_vmem=7G", "GPU: slots=8,gpu=1"),
    )
    batch.register(instance())
    batch.register(instance("10.0.0.8", pool="gpu", name="i-2"))
    state = cluster.load()
    groups = {group: hosts for group, hosts in state["groups"].items() if hosts}
    assert groups == {
        "@allhosts": ["node7", "node8"], "@m5.large": ["node7", "node8"],
        "@pool_ec2": ["node7"], "@pool_gpu": ["node8"],
    }  # fmt: skip
    assert state["hosts"]["node7"]["complex_values"] == "slots=2,h_vmem=7G"
    assert state["hosts"]["node8"]["complex_values"] == "slots=8,gpu=1", "the pool's before the flavour's"
    assert {"node7", "node8"} < set(state["admin"])


def test_a_registered_host_has_the_address_of_its_instance_at_once(cluster: FakeCluster) -> None:
    batch = plugin()
    batch.register(instance())
    asked = len(cluster.calls("getent"))
    cluster.change("node7", alive=True)
    assert batch.workers().workers[0].addresses == {"10.0.0.7"}
    assert len(cluster.calls("getent")) == asked


def test_an_address_without_a_name_is_an_error_that_says_where_to_read(cluster: FakeCluster) -> None:
    with pytest.raises(SourceError, match=r"10\.0\.0\.77 has no name.*docs/batch/gridengine\.md"):
        plugin().register(instance("10.0.0.77"))
    assert "node77" not in cluster.load()["admin"]


def test_a_host_with_jobs_on_it_cannot_be_removed_and_is_asked_for_again(cluster: FakeCluster) -> None:
    batch = plugin()
    batch.register(instance())
    cluster.change("node7", alive=True)
    number = cluster.run_job(["node7"])
    with pytest.raises(SourceError, match=f"jobs are recorded there, which qdel -f ends: {number}"):
        batch.unregister(instance())
    assert "node7" not in cluster.load()["groups"]["@allhosts"], "no further job goes there"
    cluster.state["jobs"].clear()
    cluster.save()
    batch.unregister(instance())
    assert "node7" not in cluster.load()["hosts"] and "node7" not in cluster.state["admin"]


def test_the_head_node_is_never_removed(cluster: FakeCluster) -> None:
    plugin().unregister(instance("10.0.0.1"))
    assert "head" in cluster.load()["admin"]


def test_the_host_of_an_ended_instance_is_found_after_a_restart_and_without_a_name_of_its_address(
    cluster: FakeCluster,
) -> None:
    plugin().register(instance())
    cluster.add_host("ip-10-0-0-9", "10.0.0.9")
    batch = plugin()
    batch.unregister(instance("10.0.0.9", name="i-2"))
    batch.unregister(instance())
    assert cluster.load()["hosts"] == {}
    cluster.add_host("odd", "10.0.0.50")
    del cluster.load()["names"]["odd"]
    cluster.save()
    with pytest.raises(SourceError, match="has no name"):  # it may be `odd`
        batch.unregister(instance("10.0.0.77"))


def test_an_instance_without_an_address_yet_is_neither_registered_nor_an_error(cluster: FakeCluster) -> None:
    plugin().register(instance(""))
    plugin().unregister(instance(""))
    assert not cluster.calls("qconf")


def test_hosts_that_an_administrator_has_made_stay_and_take_jobs_again(cluster: FakeCluster) -> None:
    cluster.add_host("w1", "10.0.0.31")
    batch = plugin(register=False)
    batch.drain("w1", DrainMode.IF_IDLE)
    batch.unregister(instance("10.0.0.31"))
    with pytest.raises(SourceError, match="max_unheard"):
        batch.forget("w1")
    cluster.change("w1", alive=False, seen=True)
    batch.forget("w1")
    cluster.change("w1", alive=True)
    assert [worker.state for worker in batch.workers().workers] == [WorkerState.IDLE]
    assert not [call for call in cluster.calls("qconf") if call[0] in ("-ah", "-dh", "-de")]


# --------------------------------------------------------------------------- one job, and checks


@pytest.mark.parametrize(
    ("job", "says", "waits"),
    [
        ({}, 'waits; the scheduler\'s last word: "All queues dropped because of overload or full"', True),
        ({"tasks": "1-9:1", "limit": 3}, "waits, 9 of its tasks, of which 3 may run at once (-tc)", True),
        ({"requests": {"hostname": "node07"}}, "no worker can run it: asks for the host node07", True),
        ({"later": True}, "waits for its time to come", False),
        ({"state": "hqw"}, "is held, or waits for another job (hqw)", False),
        ({"state": "Eqw"}, "is in error (Eqw): qstat -j 1 says why, qmod -cj 1 clears it", False),
        ({"state": "dr", "hosts": ["w1"]}, "is being deleted (dr)", False),
        ({"state": "r", "hosts": ["w1"]}, "runs (r)", False),
        ({"state": "S", "hosts": ["w1"]}, "is suspended", False),
        ({"state": "Zqw"}, "has the state Zqw, which says nothing to elastiq", False),
    ],
)
def test_a_job_is_explained(cluster: FakeCluster, job: dict[str, Any], says: str, waits: bool) -> None:
    cluster.submit(**job)
    key, words = plugin().find_job("1")
    assert says in words and bool(key) == waits


def test_a_task_of_an_array_is_found_by_its_number(cluster: FakeCluster) -> None:
    cluster.submit(tasks="3-9:2")
    assert plugin().find_job("1.5")[0]
    with pytest.raises(SourceError, match=r"holds no job 1\.6"):
        plugin().find_job("1.6")


def levels(batch: GridEngine) -> dict[str, str]:
    return {check.subject: check.level for check in found(batch.checks())}


def test_what_is_in_order_is_found_so(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd
    import socket

    cluster.add_host("w1", "10.0.0.31", resources={"slots": ("hc", "4.000000")})
    cluster.load()["managers"].append(pwd.getpwuid(os.geteuid()).pw_name)
    cluster.save()
    monkeypatch.setattr(socket, "gethostname", lambda: "head.example.org")
    assert levels(plugin()) == dict.fromkeys(
        ("commands", "master", "queue", "rights", "complexes", "dead hosts", "packing", "host groups"), "ok"
    )
    assert not cluster.calls("qmod"), "nothing was tried"


def test_what_is_not_in_order_is_found_with_what_to_do(cluster: FakeCluster) -> None:
    cluster.add_host("w1", "10.0.0.31")
    cluster.load()["configuration"] = {
        "-sconf": "max_unheard  00:05:00\nreschedule_unknown  00:00:00\n",
        "-ssconf": "queue_sort_method  load\nload_formula  np_load_avg\n",
    }
    cluster.state["queues"] = {"all.q": ["@others"]}
    cluster.state["groups"]["@others"] = ["w1"]
    cluster.save()
    cluster.once("qping", "fail")
    checks = {check.subject: check for check in found(plugin(memory_complexes=("m_mem_free",)).checks())}
    wrong = {subject: check.level for subject, check in checks.items() if check.level != "ok"}
    assert wrong == {
        "master's start": "warning", "rights": "error", "complexes": "warning", "dead hosts": "warning",
        "packing": "warning", "host groups": "error",
    }  # fmt: skip
    assert all(check.remedy for subject, check in checks.items() if subject in wrong)
    assert "@allhosts" in checks["host groups"].text


def test_hosts_without_slots_of_their_own_cannot_be_filled_one_after_another(cluster: FakeCluster) -> None:
    cluster.add_host("w1", "10.0.0.31", resources={"slots": ("hc", "4.000000")})
    cluster.add_host("w2", "10.0.0.32")
    (packing,) = [check for check in found(plugin().checks()) if check.subject == "packing"]
    assert packing.level == "warning" and "w2" in packing.text and "complex_values" in packing.remedy


def test_a_cluster_without_any_host_makes_qsub_fail_which_is_told(cluster: FakeCluster) -> None:
    texts = [check.text for check in found(plugin().checks()) if check.level == "warning"]
    assert any("qsub" in text for text in texts), json.dumps(texts)


def test_a_wrong_root_or_cell_is_told_as_such(cluster: FakeCluster, tmp_path: Path) -> None:
    (tmp_path / "default" / "common").mkdir(parents=True)
    assert levels(plugin(sge_root=str(tmp_path)))["commands"] == "ok"
    for key, value, said in (("sge_root", "/no", "sge_root /no is no directory"), ("sge_cell", "x", "no cell x")):
        (check,) = plugin(**{"sge_root": str(tmp_path), key: value}).checks()["commands"]()
        assert check.level == "error" and said in check.text


def test_without_the_commands_nothing_else_is_looked_at(tmp_path: Path) -> None:
    checks = levels(plugin(bin_dir=str(tmp_path)))
    assert checks.pop("commands") == "error" and set(checks.values()) == {"unknown"}
