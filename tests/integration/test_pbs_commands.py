"""The plugins for Torque and PBS Pro, and the commands that they run: fakes that print what the real ones do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from elastiq.conformance import found
from elastiq.errors import SourceError
from elastiq.interfaces import DrainMode, DrainOutcome, Instance, InstanceState, WorkerState
from elastiq.plugins.batch.pbs import PBS
from elastiq.plugins.batch.torque import Torque
from tests.integration.fake_pbs import SERVER, FakePBS
from tests.integration.pbs_plugin import MARK, plugin_over

Make = Callable[..., PBS]
NEW = Instance("i-1", InstanceState.RUNNING, frozenset({"10.0.0.7"}), pool="gpu", flavour="m5.large")
both = pytest.mark.parametrize("plugin", [Torque, PBS])


@pytest.fixture
def plugin(request: pytest.FixtureRequest) -> type[PBS]:
    return PBS


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: type[PBS]) -> Iterator[FakePBS]:
    fake = FakePBS(tmp_path / "server", plugin.section)
    monkeypatch.setenv("PATH", str(fake.bin), prepend=":")
    yield fake


@pytest.fixture
def make(server: FakePBS, plugin: type[PBS]) -> Make:
    def made(processes: bool = False, **values: Any) -> PBS:
        return plugin_over(server, plugin, processes, **values)

    return made


def with_state(server: FakePBS, /, **values: Any) -> None:
    server.load().update(values)
    server.save()


# --------------------------------------------------------------------------- reading


@both
def test_a_whole_round_by_processes(server: FakePBS, make: Make, plugin: type[PBS]) -> None:
    batch = make(processes=True)
    server.submit_shape(3, 2)
    server.add_node("w1", "10.0.0.1")
    job = server.start_job("w1")
    counts = {group.request.cpus: (group.waiting, group.running) for group in batch.jobs().groups}
    assert counts == {2: (3, 0), 1: (0, 1)}
    (worker,) = batch.workers().workers
    assert (worker.name, worker.state, worker.addresses) == ("w1", WorkerState.BUSY, {"10.0.0.1"})
    assert batch.jobs_on("w1") == (f"{job} (alice)",)
    server.end_job("w1")
    assert batch.drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED
    batch.undrain("w1")
    queue = [["-x", "-t"]] if plugin is Torque else [["-f", "-F", "json"], ["-f", "-F", "json", "-t"]]
    assert [call for call in server.calls("qstat") if "-Q" not in call] == queue * (2 if plugin is Torque else 1)


@both
def test_a_server_that_does_not_answer_is_unknown_whatever_is_printed(server: FakePBS, make: Make) -> None:
    """PBS Pro's qstat prints the frame of an empty answer beside the error."""
    server.once("jobs", "fail")
    with pytest.raises(SourceError, match="cannot connect to server"):
        make(processes=True).jobs()


@both
def test_commands_that_are_not_there_are_named_with_what_to_do(make: Make, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="command_folder"):
        make(processes=True, command_folder=str(tmp_path)).jobs()


def test_the_server_is_told_to_the_commands_by_their_environment(make: Make) -> None:
    environment = make(processes=True, server="head2:15001").tools.ask("env")
    assert "PBS_SERVER=head2:15001\n" in environment and "PBS_DEFAULT=head2:15001\n" in environment


@both
@pytest.mark.parametrize("kind", ["jobs", "nodes"])
def test_an_answer_that_is_broken_inside_is_asked_for_as_text(server: FakePBS, make: Make, kind: str) -> None:
    batch = make()
    server.add_node("w1", "10.0.0.1", cpus=8)
    server.start_job("w1", cpus=2)
    server.submit_shape(5, 2, memory_mb=1000, Variable_List="ELASTIQ_POOL=gpu")
    structured = (batch.jobs(), batch.workers())
    server.once(kind, "broken")
    assert (batch.jobs(), batch.workers()) == structured
    assert not (server.folder / f"next-{kind}").exists()


@pytest.mark.parametrize("plugin", [Torque])
def test_zero_bytes_are_an_empty_queue_if_the_queues_count_no_job(server: FakePBS, make: Make) -> None:
    with_state(server, zero_bytes=True)
    assert make().jobs().groups == ()
    server.submit_shape(3, 1)
    server.once("jobs", "silent")
    with pytest.raises(SourceError, match="count 3 jobs"):
        make().jobs()


@both
def test_jobs_of_others_that_the_server_hides_are_no_empty_queue(server: FakePBS, make: Make) -> None:
    server.submit_shape(3, 1)
    with_state(server, query_other_jobs=False)
    with pytest.raises(SourceError, match="query_other_jobs"):
        make().jobs()
    with pytest.raises(SourceError, match="query_other_jobs"):
        make().jobs_recorded_on(["w1"])


@both
def test_a_last_job_that_ends_between_two_questions_is_no_hidden_one(server: FakePBS, make: Make) -> None:
    batch = make()
    server.add_node("w1", "10.0.0.1")
    server.start_job("w1")
    ask = batch.ask_jobs

    def ended_meanwhile(**how: Any) -> list[Any]:
        server.end_job("w1")
        return ask(**how)

    batch.ask_jobs = ended_meanwhile  # type: ignore[method-assign]
    assert batch.jobs().groups == ()


@both
def test_a_resolver_that_fails_takes_no_address_away(server: FakePBS, make: Make) -> None:
    batch = make()
    server.add_node("w1", "10.0.0.1")
    server.once("getent", "fail")
    assert batch.workers().workers[0].addresses == frozenset()
    assert batch.workers().workers[0].addresses == {"10.0.0.1"}
    server.once("getent", "fail")
    assert batch.workers().workers[0].addresses == {"10.0.0.1"}


@both
def test_names_that_spell_their_address_are_not_looked_up(server: FakePBS, make: Make) -> None:
    server.add_node("ip-10-0-0-1", "10.0.0.99")
    assert make().workers().workers[0].addresses == {"10.0.0.1"}
    assert server.calls("getent") == []


# --------------------------------------------------------------------------- draining


@both
def test_a_drain_leaves_our_mark_and_its_end_takes_it_away(server: FakePBS, make: Make) -> None:
    batch = make()
    server.add_node("w1", "10.0.0.1")
    batch.drain("w1", DrainMode.IF_IDLE)
    node = server.load()["nodes"]["w1"]
    assert node["offline"] and MARK in node["note"] and len(node["note"]) < 80
    batch.undrain("w1")
    node = server.load()["nodes"]["w1"]
    assert (node["offline"], node["note"]) == (False, "")


@both
def test_a_drain_that_is_not_allowed_is_refused_though_the_command_ended_well(server: FakePBS, make: Make) -> None:
    server.add_node("w1", "10.0.0.1")
    with_state(server, operator=False)
    answer = make().drain("w1", DrainMode.IF_IDLE)
    assert answer.outcome is DrainOutcome.REFUSED
    assert "operator" in answer.detail and "Unauthorized" in answer.detail


@both
def test_a_job_that_slips_in_while_nobody_answers_has_its_worker_back(server: FakePBS, make: Make) -> None:
    """The second look fails: whether a job is there is not known, so the node is opened again."""
    batch = make()
    server.add_node("w1", "10.0.0.1")
    close = batch.close

    def then_break(nodes: Any) -> None:
        close(nodes)
        server.once("nodes", "fail")

    batch.close = then_break  # type: ignore[method-assign]
    with pytest.raises(SourceError, match="cannot connect"):
        batch.drain("w1", DrainMode.IF_IDLE)
    assert make().workers().workers[0].state is WorkerState.IDLE


@both
def test_what_somebody_else_took_offline_is_neither_used_nor_undone(server: FakePBS, make: Make) -> None:
    batch = make()
    server.add_node("w1", "10.0.0.1", offline=True, note="new disk")
    answer = batch.drain("w1", DrainMode.IF_IDLE)
    assert answer.outcome is DrainOutcome.REFUSED and "new disk" in answer.detail
    with pytest.raises(SourceError, match="new disk"):
        batch.undrain("w1")
    assert server.load()["nodes"]["w1"]["offline"]


@both
def test_a_drain_of_ours_is_found_again_after_a_restart(server: FakePBS, make: Make) -> None:
    server.add_node("w1", "10.0.0.1")
    make().drain("w1", DrainMode.IF_IDLE)
    again = make().drain("w1", DrainMode.IF_IDLE)
    assert again.outcome is DrainOutcome.DRAINED and "before" in again.detail


@both
def test_without_drain_nothing_is_taken_offline(server: FakePBS, make: Make) -> None:
    server.add_node("w1", "10.0.0.1")
    batch = make(drain=False)
    assert not batch.can_drain and batch.drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.REFUSED


def test_a_host_of_several_vnodes_is_drained_whole(server: FakePBS, make: Make) -> None:
    """By the name of its MOM: the fake knows no other, as pbs_server."""
    server.add_node("w1.example.org", "10.0.0.1")
    assert make().drain("w1.example.org", DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED
    assert server.calls("pbsnodes")[-2][-2:] == ["-o", "w1.example.org"]


# --------------------------------------------------------------------------- records of machines


@both
def test_a_node_is_created_with_what_the_configuration_says(server: FakePBS, make: Make) -> None:
    batch = make(node_name="n-%ip%", node_attributes=("np = 4", "properties = %pool%,%flavour%", "Mom = %address%"))
    batch.register(NEW)
    command = 'create node n-10-0-0-7 np="4",properties="gpu,m5.large",Mom="10.0.0.7"'
    assert server.calls("qmgr") == [["-c", command]]
    batch.register(NEW)  # it is there: what can be set later is set
    assert server.calls("qmgr")[-1] == ["-c", 'set node n-10-0-0-7 np="4",properties="gpu,m5.large"']
    server.change_node("n-10-0-0-7", state="free")
    assert batch.workers().workers[0].addresses == {"10.0.0.7"}


@both
def test_a_node_that_was_left_offline_by_us_is_open_for_its_next_machine(server: FakePBS, make: Make) -> None:
    server.add_node("ip-10-0-0-7", "", state="down", offline=True, note=f"elastiq {MARK} of test drains it")
    make().register(NEW)
    assert server.load()["nodes"]["ip-10-0-0-7"]["offline"] is False
    server.change_node("ip-10-0-0-7", offline=True, note="new disk")
    make().register(NEW)
    assert server.load()["nodes"]["ip-10-0-0-7"]["offline"] is True


@both
@pytest.mark.parametrize(("lacking", "said"), [("manager", "manager"), ("resolves", "Unknown node")])
def test_a_node_that_cannot_be_created_says_why(server: FakePBS, make: Make, lacking: str, said: str) -> None:
    with_state(server, **{lacking: False})
    with pytest.raises(SourceError, match=said):
        make().register(NEW)


@both
def test_a_machine_that_moved_leaves_no_node_behind(server: FakePBS, make: Make) -> None:
    batch = make()
    batch.register(NEW)
    batch.register(Instance("i-1", InstanceState.RUNNING, frozenset({"10.0.0.8"})))
    assert list(server.load()["nodes"]) == ["ip-10-0-0-8"]


@both
def test_a_node_with_jobs_is_not_deleted(server: FakePBS, make: Make) -> None:
    server.add_node("w1", "10.0.0.1")
    server.start_job("w1")
    server.change_node("w1", state="down")
    with pytest.raises(SourceError, match="records jobs there"):
        make().forget("w1")
    assert "w1" in server.load()["nodes"]


@both
def test_a_node_is_deleted_once_pbs_knows_that_its_machine_has_ended(server: FakePBS, make: Make) -> None:
    batch = make()
    batch.register(NEW)
    server.change_node("ip-10-0-0-7", state="free", np=4)
    with pytest.raises(SourceError, match="does not know yet"):
        batch.unregister(NEW)
    server.change_node("ip-10-0-0-7", state="down")
    batch.unregister(NEW)
    assert server.load()["nodes"] == {}


@both
def test_without_register_nodes_stay_and_are_opened_again_when_they_are_down(server: FakePBS, make: Make) -> None:
    batch = make(register=False)
    batch.register(NEW)
    assert server.load()["nodes"] == {}
    server.add_node("w1", "10.0.0.1")
    batch.drain("w1", DrainMode.IF_IDLE)
    with pytest.raises(SourceError, match="does not know yet"):
        batch.forget("w1")
    assert server.load()["nodes"]["w1"]["offline"]
    server.change_node("w1", state="down")
    batch.forget("w1")
    assert server.load()["nodes"]["w1"]["offline"] is False
    batch.unregister(NEW)
    assert server.calls("qmgr") == []


# --------------------------------------------------------------------------- one job


@both
@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("H", "is held"),
        ("R", "runs on w1"),
        ("W", "its hour"),
        ("S", "is suspended"),
        ("Z", "says nothing"),
        ("C", "ended"),
    ],
)
def test_a_job_that_waits_for_no_machine_says_how_it_is(server: FakePBS, make: Make, state: str, words: str) -> None:
    host = {"host": "w1"} if state in "RS" else {}
    job = server.submit_shape(1, 1, state=state, comment="as I said", **host)
    key, said = make().find_job(job)
    assert key == "" and words in said and "as I said" in said


@both
def test_a_job_that_waits_says_for_what(server: FakePBS, make: Make) -> None:
    job = server.submit_shape(1, 4, nodes=3, comment="Not Running: Insufficient amount of resource: ncpus")
    key, said = make().find_job(job.partition(".")[0])
    assert key and "queued in batch" in said and "for 3 machines at once" in said and "Insufficient" in said
    assert make(queues=("long",)).find_job(job)[0] == ""
    with_state(server, queues={"batch": {"queue_type": "Execution", "started": "False"}})
    assert "is stopped" in make().find_job(job)[1]


@both
def test_a_job_that_is_not_there_is_an_error_in_plain_words(make: Make) -> None:
    with pytest.raises(SourceError, match="holds no job 99"):
        make().find_job(f"99.{SERVER}")
    for odd in ("-x", "1; rm", "batch", "1.srv 2.srv", ""):
        with pytest.raises(SourceError, match="is no job"):
            make().find_job(odd)


# --------------------------------------------------------------------------- checks


def levels(batch: PBS) -> dict[str, str]:
    worst = ("ok", "unknown", "warning", "error")
    by_subject: dict[str, str] = {}
    for check in found(batch.checks()):
        by_subject[check.subject] = max(by_subject.get(check.subject, "ok"), check.level, key=worst.index)
    return by_subject


@both
def test_a_server_in_order_passes_every_check(server: FakePBS, make: Make) -> None:
    server.add_node("w1", "10.0.0.1")
    with_state(server, server={**server.state["server"], "managers": "*@*", "auto_node_np": "True"})
    assert set(levels(make()).values()) == {"ok"}


@both
@pytest.mark.parametrize(
    ("change", "subject", "level"),
    [
        ({"managers": "root@*,alice@x", "operators": "bob@*"}, "drain", "error"),
        ({"managers": "alice@x"}, "records", "error"),
        ({"managers": "", "operators": ""}, "drain", "error"),  # then nobody but root, where the server is
        ({"scheduling": "False"}, "server", "warning"),
    ],
)
def test_what_is_wrong_with_a_server_is_found(
    server: FakePBS, make: Make, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], subject: str, level: str
) -> None:
    monkeypatch.setattr("elastiq.plugins.batch.pbs_checks.user_here", lambda: "elastiq")
    with_state(server, server={**server.state["server"], **change})
    assert levels(make())[subject] == level


@both
def test_queues_that_are_stopped_or_not_there_are_found(server: FakePBS, make: Make) -> None:
    with_state(server, queues={"batch": {"queue_type": "Execution", "started": "False"}})
    assert levels(make())["queues"] == "warning"
    assert levels(make(queues=("nonsense",)))["queues"] == "error"


@both
def test_a_node_that_cannot_be_told_to_be_a_machine_is_found(server: FakePBS, make: Make) -> None:
    server.add_node("w1", "")
    assert levels(make())["nodes"] == "warning"


@pytest.mark.parametrize("plugin", [Torque])
def test_a_torque_that_gives_new_nodes_one_processor_is_found(server: FakePBS, make: Make) -> None:
    with_state(server, server={**server.state["server"], "managers": "*@*"})
    assert levels(make())["records"] == "warning"
    assert levels(make(node_attributes=("np = 4",)))["records"] == "ok"


# --------------------------------------------------------------------------- Moab


@pytest.mark.parametrize("plugin", [Torque])
def test_what_moab_blocks_is_no_demand_and_a_moab_that_is_silent_is_unknown(
    server: FakePBS, make: Make, tmp_path: Path
) -> None:
    job = server.submit_shape(2, 1)
    blocked = f'<queue option="blocked"><job DRMJID="{job}" State="Hold"/></queue>'
    (tmp_path / "answer").write_text(f'\n<Data><queue option="eligible"/>{blocked}</Data>\n')
    showq = tmp_path / "showq"
    showq.write_text(f'#!/bin/sh\n[ "$*" = --xml ] && cat {tmp_path}/answer\n')
    showq.chmod(0o755)
    batch = make(processes=True, showq=str(showq))
    assert {group.not_eligible: group.waiting for group in batch.jobs().groups} == {"": 1, "Moab blocks it (Hold)": 1}
    assert "Moab blocks it" in batch.find_job(job)[1]
    (tmp_path / "answer").write_text("ERROR:  client timed out after 30 seconds (hostname:port=head:42559)\n")
    with pytest.raises(SourceError, match="client timed out"):
        batch.jobs()
