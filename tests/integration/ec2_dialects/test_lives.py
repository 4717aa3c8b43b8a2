"""Whole lives of machines in every dialect: the real daemon, real HTTP, kill -9 in between."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ec2_server import Rule
from tests.integration.ec2_dialects.behaviours import EVERY, NAMED, NOVA, UNHEARD
from tests.integration.ec2_dialects.head import ROOT, Head


@pytest.fixture
def head(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Head]:
    head = Head(tmp_path, EVERY[request.param])
    yield head
    head.close()


def launched(head: Head, count: int) -> None:
    head.jobs_wait(count)
    head.start()
    head.wait_for(lambda: len(head.ours()) == count, "the launch")


def refusals(head: Head) -> int:
    """How many launches are refused, and make nothing, before the cloud has said all that it does not know."""
    return 2 if head.cloud.way is UNHEARD else 0


def seen(head: Head) -> bool:
    """Whether the daemon knows the machines of ours, and no others."""
    nodes = head.nodes()
    return set(nodes) == set(head.ours()) and all(state in ("pending", "booting") for state in nodes.values())


def come_to_their_end(head: Head) -> None:
    head.wait_for(lambda: all(one.state == "running" for one in head.ours().values()), "they run")
    head.machines_join()
    head.wait_for(lambda: all(one.state == "terminated" for one in head.ours().values()), "their end")
    head.wait_for(lambda: not set(head.nodes()), "their end is seen")
    assert head.stop() == 0


def nothing_else_happened(head: Head) -> None:
    """Our machines are of one launch, and only they have ended."""
    assert len(head.launches()) == 1 + refusals(head)
    assert set(head.cloud.ended) == set(head.ours())
    assert set(head.cloud.tagged) <= set(head.ours())
    assert [one.state in ("running", "stopped", "quarantine") for one in head.cloud.of("them").values()] == [True, True]


@pytest.mark.parametrize("head", EVERY, indirect=True)
def test_machines_are_launched_once_survive_a_kill_and_end(head: Head) -> None:
    launched(head, 2)
    if head.cloud.way is NOVA:  # it shows neither tags nor tokens: a launch without an answer is not found
        head.wait_for(lambda: seen(head), "the answer")
    head.kill()
    head.start()
    head.wait_for(lambda: seen(head), "the machines are known again")
    come_to_their_end(head)
    nothing_else_happened(head)
    assert len(head.ours()) == 2
    assert f": dialect {head.cloud.way.dialect}: " in head.log()
    if head.cloud.way.dialect in NAMED:
        assert head.cloud.complaints == []  # nothing was asked for that the cloud does not know


@pytest.mark.parametrize("head", [name for name, way in EVERY.items() if way is not NOVA], indirect=True)
def test_machines_are_found_again_when_the_state_directory_is_lost(head: Head) -> None:
    launched(head, 2)
    head.kill()
    shutil.rmtree(head.folder / "state")
    head.start()
    head.wait_for(lambda: seen(head), "the machines are known again")
    come_to_their_end(head)
    nothing_else_happened(head)
    assert len(head.ours()) == 2


@pytest.mark.parametrize("head", [name for name, way in EVERY.items() if way is not NOVA], indirect=True)
def test_a_launch_whose_answer_was_lost_is_found_and_not_repeated(head: Head) -> None:
    head.server.script("RunInstances", *[Rule(passes=True)] * refusals(head), Rule(effect=True, drop=True))
    launched(head, 2)
    head.wait_for(lambda: seen(head), "the machines are known")
    come_to_their_end(head)
    nothing_else_happened(head)
    assert len(head.ours()) == 2


@pytest.mark.parametrize("head", ["outscale", "generic"], indirect=True)
def test_conf_says_which_dialect_is_spoken_and_why(head: Head) -> None:
    argv = [sys.executable, "-m", "elastiq", "--config", str(head.config), "conf"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=ROOT, check=True)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("site")]
    why = {"outscale": "set by `dialect`", "generic": "set `dialect` if you know a nearer one"}
    assert line.endswith(f", dialect {head.cloud.way.dialect}: {why[head.cloud.way.dialect]}")


@pytest.mark.parametrize("head", ["generic-nova"], indirect=True)
def test_what_shows_neither_tags_nor_tokens_is_ours_by_the_state_directory_only(head: Head) -> None:
    launched(head, 1)
    head.wait_for(lambda: "shows neither tags nor tokens: only the state directory" in head.log(), "a warning")
    head.kill()
    shutil.rmtree(head.folder / "state")
    head.pool.load()["jobs"].clear()
    head.pool.save()
    head.start()
    before = len(head.server.asked("DescribeInstances"))
    head.wait_for(lambda: len(head.server.asked("DescribeInstances")) > before + 5, "some listings")
    assert head.nodes() == {} and head.cloud.ended == []
