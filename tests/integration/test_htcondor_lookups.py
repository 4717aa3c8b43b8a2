"""Single jobs and what check advises, over fake commands of HTCondor."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastiq import command
from elastiq.interfaces import SourceError
from tests.integration.fake_htcondor import FakePool
from tests.integration.test_htcondor_commands import change, plugin
from tests.looks import by_subject


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePool:
    pool = FakePool(tmp_path / "pool")
    monkeypatch.setenv("PATH", str(pool.bin), prepend=":")
    command.stopping.clear()
    return pool


def test_an_idle_job_is_found_with_the_key_of_its_group(pool: FakePool) -> None:
    pool.submit(3, RequestCpus=4, ElastiqPool="GPU", RequestMemory="/Expr(RequestCpus * 9)/")
    pool.submit(2)
    first, second = plugin().jobs().groups
    key, stands = plugin().find_job("1.2")
    assert key == first.key and first.pools == ("gpu",) and first.request.memory_mb == 36
    assert stands == "job 1.2 of head is idle; the negotiator has not considered it yet"
    assert plugin().find_job("2")[0] == second.key


def test_only_the_schedd_that_is_named_is_asked(pool: FakePool) -> None:
    change(pool, schedds=["head", "two"], dead=["two"])
    pool.submit(1)
    assert plugin().find_job("1.0@head")[0]
    assert {argv[argv.index("-name") + 1] for argv in pool.calls("condor_q")} == {"head"}
    with pytest.raises(SourceError, match=r"not everybody answered: schedd two: condor_q failed"):
        plugin().find_job("1.0@two")


@pytest.mark.parametrize("how", ["fail", "fail-with-rows", "garble"])
def test_a_job_that_cannot_be_looked_up_is_an_error(pool: FakePool, how: str) -> None:
    pool.submit(1)
    pool.once("find_job", how)
    with pytest.raises(SourceError, match="not everybody answered"):
        plugin().find_job("1.0")


def test_check_tells_how_jobs_are_placed_on_policies_and_on_what_is_to_come(pool: FakePool) -> None:
    pool.submit(2, JobUniverse=11, MaxHosts=3)
    pool.add_worker("w1", "10.0.0.1")
    change(pool, schedd_ad={"JobsUnmaterialized": 18}, configuration={})
    found = by_subject(plugin().checks())
    assert found["packing"].level == "ok" and "HTCondor's default" in found["packing"].text
    policy = found["workers' policy"]
    assert policy.level == "warning" and policy.text.startswith("2 parallel jobs can start nowhere")
    queue = found["jobs of all users"]
    assert queue.level == "ok" and "; 18 more are to be made by late materialisation" in queue.text
