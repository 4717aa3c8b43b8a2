"""The Slurm plugin and its commands, as processes: which it runs, of which version, and what it makes of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Callable

import pytest

from elastiq.conformance import found
from elastiq.interfaces import DrainMode, DrainOutcome, Instance, InstanceState, Owner, SourceError, WorkerState
from elastiq.plugins.batch.slurm import Slurm
from tests.integration.fake_slurm import FakeSlurm
from tests.integration.slurm_forms import BOOTED

OWNER = Owner("test", "0123456789abcdef0123")
MARK = OWNER.mark


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path / "slurm")


@pytest.fixture
def make(slurm: FakeSlurm) -> Callable[..., Slurm]:
    def made(**given: Any) -> Slurm:
        values = {option.name: option.default for option in Slurm.OPTIONS}
        values.update(command_folder=str(slurm.bin), command_timeout_s=20.0)
        return Slurm.from_config({**values, **given}, OWNER)

    return made


def instance(identifier: str, address: str, pool: str = "ec2") -> Instance:
    return Instance(identifier, InstanceState.RUNNING, frozenset({address}), pool=pool)


def of_version(slurm: FakeSlurm, version: str) -> None:
    slurm.load()["version"] = version
    slurm.save()


# --------------------------------------------------------------------------- what the installed Slurm offers


@pytest.mark.parametrize(
    ("version", "asked"),
    [
        ("20.11.9", ["scontrol", "-a", "-d", "-o", "--future", "show", "node"]),
        ("21.08.8", ["sinfo", "-a", "--json"]),
        ("22.05.8", ["sinfo", "-a", "--json"]),
        ("23.02.1", ["scontrol", "-a", "show", "nodes", "--json"]),
        ("25.05.0", ["scontrol", "-a", "show", "nodes", "--json"]),
    ],
)
def test_nodes_are_asked_for_in_the_form_that_the_version_has(
    slurm: FakeSlurm, make: Callable[..., Slurm], version: str, asked: list[str]
) -> None:
    of_version(slurm, version)
    slurm.add_node("w1", "10.0.0.1", features=["a", "b"], gres="gpu:2", used_gres="gpu:1")
    slurm.submit(state="R", hosts=["w1"], memory=100)
    batch = make()
    (worker,) = batch.workers().workers
    assert (worker.state, worker.jobs, worker.free.cpus, worker.free.memory_mb) == (WorkerState.BUSY, 1, 3, 8092)
    assert (worker.free.gpus, worker.started_at) == (1, BOOTED + 100)
    assert asked[1:] in slurm.calls(asked[0])
    assert batch.workers().workers == (worker,)
    assert sum(call == ["--version"] for call in slurm.calls("scontrol")) == 1


def test_where_json_is_not_installed_nodes_are_told_as_text_from_then_on(
    slurm: FakeSlurm, make: Callable[..., Slurm]
) -> None:
    slurm.load()["json"] = False
    slurm.save()
    slurm.add_node("w1", "10.0.0.1")
    batch = make()
    for _ in range(2):
        assert [worker.name for worker in batch.workers().workers] == ["w1"]
    assert len(slurm.calls("sinfo")) == 1
    with pytest.raises(SourceError, match="serializer"):
        make(query_method="json").workers()


def test_a_json_answer_with_errors_is_a_failure_though_its_exit_code_is_0(
    slurm: FakeSlurm, make: Callable[..., Slurm]
) -> None:
    slurm.add_node("w1", "10.0.0.1")
    batch = make(query_method="json")
    for call, read in (("workers", batch.workers), ("jobs", batch.jobs)):
        slurm.once(call, "error")
        with pytest.raises(SourceError, match="Zero Bytes"):
            read()


def test_the_same_is_said_in_every_form(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    slurm.add_node("w1", "10.0.0.1", partitions=["main", "long"], disk=500)
    slurm.add_node("w2", "10.0.0.2", flags=["DYNAMIC_NORM", "DRAIN"], reason="new disk, and more")
    slurm.submit(3, cpus=4, memory=400, features="a&b", partition="main,long")
    slurm.submit(array=9, tasks="1-9", limit=4, reason="ReqNodeNotAvail, UnavailableNodes:w[1-2]")
    slurm.submit(2, het=40, reason="Priority")
    slurm.submit(cpus=16, ntasks=16)
    slurm.submit(cpus=16, ntasks=16, max_nodes=1)
    slurm.submit(state="R", hosts=["w1"], reason="None")
    told = set()
    for version, method in (("20.11.9", "text"), ("22.05.8", "text"), ("22.05.8", "json"), ("24.11.5", "json")):
        of_version(slurm, version)
        batch = make(query_method=method)
        told.add((batch.jobs(), batch.workers()))
    assert len(told) == 1


def test_slurmctlds_own_clock_says_for_how_long_it_has_been_up(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    assert make().workers().source_up_s == 5000


def test_a_configuration_of_slurm_and_a_folder_of_commands_are_passed_on(
    slurm: FakeSlurm, make: Callable[..., Slurm], tmp_path: Path
) -> None:
    told = tmp_path / "told"
    (slurm.bin / "scontrol").write_text(f'#!/bin/sh\necho "$SLURM_CONF $TZ" >{told}\necho slurm 20.02\n')
    conf = tmp_path / "slurm.conf"
    conf.touch()
    with pytest.raises(SourceError):
        make(slurm_conf=str(conf)).workers()
    assert told.read_text().split() == [str(conf), "UTC"]


def test_a_slurm_conf_that_is_not_there_is_named_before_any_command_waits_for_it(
    slurm: FakeSlurm, make: Callable[..., Slurm], tmp_path: Path
) -> None:
    batch = make(slurm_conf=str(tmp_path / "slurm.cnf"))
    for read in (
        batch.jobs,
        batch.workers,
        partial(batch.find_job, "1"),
        partial(batch.drain, "w1", DrainMode.IF_IDLE),
    ):
        with pytest.raises(SourceError, match=r"slurm_conf in .slurm.: .*/slurm.cnf is not there"):
            read()
    commands, *others = found(batch.checks())
    assert (commands.level, "slurm.cnf" in commands.text) == ("error", True)
    assert {check.level for check in others} == {"unknown"}
    assert slurm.calls("squeue") == slurm.calls("scontrol") == slurm.calls("sinfo") == []


@pytest.mark.parametrize("how", ["text", "json"])
def test_a_munge_that_does_not_answer_is_one_clear_line(slurm: FakeSlurm, make: Callable[..., Slurm], how: str) -> None:
    slurm.once("jobs", "munge")
    with pytest.raises(SourceError) as caught:
        make(query_method=how).jobs()
    assert str(caught.value) == "squeue: munge does not answer: start munged (systemctl start munge)"


def test_commands_that_are_not_there_are_named_with_what_to_install(make: Callable[..., Slurm], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="client commands must be installed"):
        make(command_folder=str(tmp_path)).jobs()
    commands, *others = found(make(command_folder=str(tmp_path)).checks())
    assert commands.level == "error" and "scontrol, squeue not found" in commands.text
    assert {check.level for check in others} == {"unknown"}


# --------------------------------------------------------------------------- the queue


def test_fields_that_squeue_cuts_are_asked_for_again(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    tasks = ",".join(f"{number}" for number in range(1, 600, 3))
    slurm.submit(array=1, tasks=tasks)
    slurm.submit(features="&".join(f"feature{number}" for number in range(20)))
    slurm.submit()
    groups = make().jobs().groups
    assert [group.waiting for group in groups] == [201, 1]
    assert groups[1].requirements.endswith("feature19")


@pytest.mark.parametrize("how", ["text", "json"])
def test_a_job_for_all_memory_of_a_node_has_a_machine_for_itself_whatever_its_size(
    slurm: FakeSlurm, make: Callable[..., Slurm], how: str
) -> None:
    """Its TRES have the memory of a node that slurmctld happens to know: seen with 22.05 and 24.11."""
    slurm.submit(2, cpus=2, memory=60000, min_memory="0")
    slurm.submit(3, cpus=2, memory=500)
    slurm.submit(1, cpus=6, ntasks=6, max_nodes=2, memory=60000, min_memory="0")
    of_version(slurm, "24.11.5")
    for parameters, apart in (("CR_CORE_MEMORY", True), ("CR_CORE", False)):
        slurm.load()["config"]["SelectTypeParameters"] = parameters
        slurm.save()
        groups = make(query_method=how).jobs().groups
        asked = {(group.request.cpus, group.request.memory_mb): (group.waiting, group.apart) for group in groups}
        assert asked[2, None] == (2, apart)
        assert asked[2, 500] == (3, False)
        assert not apart or asked[6, None] == (1, True)


def test_jobs_whose_fields_are_cut_may_be_gone_meanwhile(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    slurm.submit(features="x" * 100)
    slurm.once("find_job", "gone")
    assert make().jobs().groups == ()


def test_a_users_own_settings_of_the_commands_change_nothing(
    slurm: FakeSlurm, make: Callable[..., Slurm], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("SQUEUE_USERS", "me"), ("SQUEUE_STATES", "R"), ("SLURM_CLUSTERS", "other")):
        monkeypatch.setenv(name, value)
    slurm.submit(user="alice")
    assert [group.waiting for group in make().jobs().groups] == [1]


def test_hidden_partitions_are_looked_at_too(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    slurm.submit(partition="hidden")
    assert sum(group.waiting for group in make().jobs().groups) == 1


def test_other_partitions_are_not_looked_at_where_some_are_named(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    slurm.submit(2, partition="main")
    slurm.submit(3, partition="debug")
    slurm.add_node("w1", "10.0.0.1", partitions=["main"])
    slurm.add_node("w2", "10.0.0.2", partitions=["debug", "long"])
    batch = make(partitions=("debug",))
    assert [group.waiting for group in batch.jobs().groups] == [3]
    assert [worker.name for worker in batch.workers().workers] == ["w2"]


@pytest.mark.parametrize(
    ("name", "waits", "words"),
    [
        ("1", True, "Resources"),
        ("2", True, "for 3 nodes"),
        ("3", False, "JobHeldUser"),
        ("4", False, "on a machine"),
        ("5", True, "no new machine can run it"),
        ("6_17", True, "of its 20 tasks that wait, 5 count: 5 may run at once (%5), 0 do"),
        ("6", True, "job 6"),
        ("7+1", True, 'job 7+1 is pending; Slurm says: "Resources"'),
        ("7", True, "job 7+0 is pending; this is one part of a heterogeneous job, explain the others too: 7+1"),
        ("9", False, "state RH"),
    ],
)
def test_a_job_is_explained(slurm: FakeSlurm, make: Callable[..., Slurm], name: str, waits: bool, words: str) -> None:
    slurm.submit()
    slurm.submit(cpus=3, nodes=3, max_nodes=3, ntasks=3)
    slurm.submit(reason="JobHeldUser")
    slurm.submit(state="R", hosts=["w1"])
    slurm.submit(asked_nodes="w7")
    slurm.submit(array=6, tasks="1-20", limit=5)
    slurm.submit(het=7)
    slurm.submit(het=7, offset=1, cpus=2)
    slurm.submit(state="RH")
    batch = make()
    key, said = batch.find_job(name)
    assert words in said
    assert (key in {group.key for group in batch.jobs().groups}) == bool(key) == waits


@pytest.mark.parametrize(
    ("name", "words"), [("99", "does not hold job 99"), ("hello", "is no job"), ("1_7", "not hold")]
)
def test_what_is_no_job_of_the_queue_is_told(
    slurm: FakeSlurm, make: Callable[..., Slurm], name: str, words: str
) -> None:
    slurm.submit()
    with pytest.raises(SourceError, match=words):
        make().find_job(name)


def test_jobs_on_several_nodes_are_recorded_on_each(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    slurm.submit(state="CG", hosts=["w1", "w2"], user="alice")
    slurm.submit(state="R", hosts=["w2"], array=7, tasks="3", user="bob")
    slurm.submit()
    batch = make()
    assert batch.jobs_recorded_on(["w1", "w2", "w3"]) == {"w1": 1, "w2": 2, "w3": 0}
    assert batch.jobs_on("w2") == ("1 (alice)", "7_3 (bob)")


# --------------------------------------------------------------------------- drains


def test_a_drain_has_a_reason_that_names_us(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    slurm.add_node("W1", "10.0.0.1")
    assert make().drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED
    assert ["update", "nodename=W1", "state=drain", f"reason=elastiq {MARK} of test"] in slurm.calls("scontrol")


def test_a_drain_of_somebody_else_is_neither_taken_over_nor_undone(
    slurm: FakeSlurm, make: Callable[..., Slurm]
) -> None:
    slurm.add_node("w1", "10.0.0.1", flags=["DRAIN"], reason="elastiq ffffffffffffffff of another")
    batch = make()
    before = batch.workers()
    assert batch.drain("w1", DrainMode.PEACEFUL).outcome is DrainOutcome.REFUSED
    with pytest.raises(SourceError, match="by somebody else"):
        batch.undrain("w1")
    assert batch.workers() == before


def test_nothing_is_drained_where_that_is_switched_off(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    slurm.add_node("w1", "10.0.0.1")
    batch = make(drain=False)
    assert not batch.can_drain and batch.drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.REFUSED
    assert not any("update" in call for call in slurm.calls("scontrol"))


# --------------------------------------------------------------------------- nodes that come and go

NONE = {"base": "DOWN", "flags": ["CLOUD"], "started": None, "reason": "elastiq: no machine"}


def nodes_of(slurm: FakeSlurm) -> dict[str, tuple[str, str]]:
    """The address of each node, and whose it is."""
    return {name: (of["address"], of["comment"].rpartition(" ")[2]) for name, of in slurm.load()["nodes"].items()}


def test_machines_that_are_registered_at_once_get_different_nodes(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    for number in range(1, 6):
        slurm.add_node(f"p{number}", "192.0.2.1", **NONE)
    batch = make(predeclared_nodes=("p[1-5]",))
    with ThreadPoolExecutor(5) as threads:
        list(threads.map(batch.register, [instance(f"i-{number}", f"10.0.0.{number}") for number in range(1, 6)]))
    given = sorted((whose, address) for address, whose in nodes_of(slurm).values())
    assert given == [(f"i-{number}", f"10.0.0.{number}") for number in range(1, 6)]


def test_a_pool_has_its_own_nodes_then_those_of_all(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    for name in ("any1", "gpu1", "other1"):
        slurm.add_node(name, "192.0.2.1", **NONE)
    batch = make(predeclared_nodes=("any1", "GPU: gpu1"))
    for number in (1, 2):
        batch.register(instance(f"i-{number}", f"10.0.0.{number}", pool="gpu"))
    assert nodes_of(slurm) == {"gpu1": ("10.0.0.1", "i-1"), "any1": ("10.0.0.2", "i-2"), "other1": ("192.0.2.1", "")}
    with pytest.raises(SourceError, match="no node is free for i-3 of pool gpu: `predeclared_nodes` names 2"):
        batch.register(instance("i-3", "10.0.0.3", pool="gpu"))


@pytest.mark.parametrize(
    ("said", "free"),
    [
        (NONE, True),
        ({"base": "FUTURE", "flags": [], "started": None}, True),
        ({"base": "DOWN", "flags": ["NOT_RESPONDING"], "started": None}, True),  # as slurm.conf has it
        ({"base": "IDLE", "flags": ["CLOUD", "POWERED_DOWN"], "started": None}, True),
        ({"base": "IDLE", "flags": ["CLOUD"], "started": None}, True),
        ({"base": "IDLE", "flags": ["CLOUD"]}, False),  # it is in service
        ({"base": "DOWN", "flags": ["CLOUD"], "reason": "broken, do not use"}, False),
        ({"base": "DOWN", "flags": ["CLOUD"], "started": None, "reason": "broken, do not use"}, False),
        ({**NONE, "comment": f"elastiq {MARK} i-9"}, False),
        ({**NONE, "comment": "elastiq ffffffffffffffff i-9"}, False),
        ({**NONE, "comment": "rack 7"}, True),
    ],
)
def test_a_node_is_free_if_it_has_no_machine(
    slurm: FakeSlurm, make: Callable[..., Slurm], said: dict[str, Any], free: bool
) -> None:
    slurm.add_node("p1", "192.0.2.1", **said)
    batch, before = make(predeclared_nodes=("p1",)), slurm.load()["nodes"]["p1"]
    if not free:
        with pytest.raises(SourceError, match="no node is free"):
            batch.register(instance("i-1", "10.0.0.1"))
        assert slurm.load()["nodes"]["p1"] == before
        return
    batch.register(instance("i-1", "10.0.0.1"))
    now = slurm.load()["nodes"]["p1"]
    assert (now["address"], now["base"], now["comment"]) == ("10.0.0.1", "DOWN", f"elastiq {MARK} i-1")
    assert batch.workers().workers == ()


def test_a_private_address_is_taken_before_a_public_one(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    slurm.add_node("p1", "192.0.2.1", **NONE)
    both = replace(instance("i-1", ""), addresses=frozenset({"2001:db8::1", "52.1.2.3", "10.0.0.9"}))
    make(predeclared_nodes=("p1",)).register(both)
    assert nodes_of(slurm)["p1"] == ("10.0.0.9", "i-1")


def test_a_node_that_was_drained_and_put_back_is_not_drained_when_its_next_machine_comes(
    slurm: FakeSlurm, make: Callable[..., Slurm]
) -> None:
    slurm.add_node("p1", "10.0.0.1", flags=["CLOUD"], comment=f"elastiq {MARK} i-1")
    batch = make(predeclared_nodes=("p1",))
    assert batch.drain("p1", DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED
    batch.forget("p1")
    batch.unregister(instance("i-1", "10.0.0.1"))
    now = slurm.load()["nodes"]["p1"]
    assert (now["base"], now["reason"], now["comment"], now["address"]) == (
        *("DOWN", "elastiq: no machine", ""),
        "192.0.2.1",
    )
    assert "DRAIN" not in now["flags"]


def test_what_slurm_still_has_in_service_is_never_put_down_nor_deleted(
    slurm: FakeSlurm, make: Callable[..., Slurm]
) -> None:
    slurm.add_node("p1", "10.0.0.1", flags=["CLOUD"], comment=f"elastiq {MARK} i-1")
    slurm.add_node("w1", "10.0.0.2")
    slurm.submit(2, state="R", hosts=["p1"])
    batch = make(predeclared_nodes=("p1",))
    acts: list[Callable[[], None]] = [
        partial(batch.forget, "p1"),
        partial(batch.unregister, instance("i-1", "10.0.0.1")),
        partial(batch.forget, "w1"),
    ]
    for act in acts:
        with pytest.raises(SourceError, match="in service still"):
            act()
    batch.unregister(instance("i-2", "10.0.0.2"))  # may be another machine's by now
    assert [worker.name for worker in batch.workers().workers] == ["p1", "w1"]
    assert batch.jobs_recorded_on(["p1"]) == {"p1": 2}


def test_nodes_of_slurm_conf_that_are_not_elastiqs_are_never_deleted_nor_changed(
    slurm: FakeSlurm, make: Callable[..., Slurm]
) -> None:
    slurm.add_node("own1", "10.0.0.1", base="DOWN", flags=["NOT_RESPONDING"], reason="Not responding")
    before = slurm.load()["nodes"]
    batch = make()
    batch.forget("own1")
    batch.unregister(instance("i-1", "10.0.0.1"))
    assert slurm.load()["nodes"] == before


def test_a_machine_that_comes_up_at_a_recycled_address_gets_the_node_that_has_it(
    slurm: FakeSlurm, make: Callable[..., Slurm]
) -> None:
    for name in ("p1", "p2"):
        slurm.add_node(name, "192.0.2.1", **NONE)
    batch = make(predeclared_nodes=("p[1-2]",))
    batch.register(instance("i-1", "10.0.0.1"))
    batch.register(instance("i-2", "10.0.0.1"))
    assert nodes_of(slurm)["p1"] == ("10.0.0.1", "i-2")
    batch.unregister(instance("i-1", "10.0.0.1"))
    assert nodes_of(slurm)["p1"] == ("10.0.0.1", "i-2")


# --------------------------------------------------------------------------- checks


def check_of(batch: Slurm, subject: str) -> list[tuple[str, str]]:
    return [(check.level, check.text) for check in found(batch.checks()) if check.subject == subject]


def test_a_partition_that_slurm_does_not_know_is_an_error(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    slurm.add_node("w1", "10.0.0.1", partitions=["main", "gpu"])
    said = check_of(make(partitions=("main", "nosuch")), "queue")
    assert said == [("error", "Slurm knows no partition nosuch (it has gpu, main)")]
    assert [level for level, _ in check_of(make(partitions=("main", "gpu")), "queue")] == ["ok"]


def test_of_a_queue_that_cannot_be_read_the_command_is_named(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    slurm.once("jobs", "garble")
    (check,) = [check for check in found(make().checks()) if check.level == "error"]
    assert f"run {slurm.bin}/squeue by hand" in check.remedy


def test_checks_change_nothing_and_name_what_is_wrong(slurm: FakeSlurm, make: Callable[..., Slurm]) -> None:
    slurm.add_node("p1", "192.0.2.1", base="IDLE", flags=["CLOUD"], started=None)
    slurm.add_node("p2", "192.0.2.1", base="FUTURE", flags=[], started=None)
    slurm.load()["config"].update(
        ReturnToService="1", SuspendProgram="/x", SuspendTime="300 sec", SelectTypeParameters="CR_CORE_MEMORY,CR_LLN"
    )
    slurm.save()
    before = slurm.load()["nodes"]
    batch = make(predeclared_nodes=("p[1-3]",))
    levels = {check.subject: check.level for check in found(batch.checks())}
    texts = " ".join(text for _, text in check_of(batch, "nodes") + check_of(batch, "scheduling"))
    assert levels["commands"] == levels["slurmctld"] == levels["queue"] == levels["drain"] == "ok"
    for words in (
        "power saving",
        "knows no p3",
        "takes p1 for there",
        "p2",
        "ReturnToService = 1",
        "CR_LLN",
        "no memory",
    ):
        assert words in texts, words
    assert any("PrivateData=cloud" in check.remedy for check in found(batch.checks()))
    assert slurm.load()["nodes"] == before


def test_checks_tell_a_user_who_may_not_drain_or_sees_only_his_jobs(
    slurm: FakeSlurm, make: Callable[..., Slurm]
) -> None:
    slurm.load().update(may_update=False)
    slurm.state["config"]["PrivateData"] = "jobs,nodes"
    slurm.save()
    batch = make()
    assert check_of(batch, "drain")[0][0] == "error" and check_of(batch, "queue")[0][0] == "error"
    assert check_of(make(drain=False), "drain")[0] == (
        "warning",
        "drain = no: a job that starts right before a machine's end is lost with it",
    )
