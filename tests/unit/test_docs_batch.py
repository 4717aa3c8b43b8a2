"""docs/batch tells of every batch system, and of every key of what executables print."""

from __future__ import annotations

import importlib
import re
import subprocess
from pathlib import Path

import pytest

from elastiq import config
from elastiq.conformance.batch import BatchConformance
from elastiq.interfaces import Owner
from elastiq.plugin_loader import BATCH_GROUP, BUILT_IN, batch_class
from elastiq.plugins.batch import command
from elastiq.plugins.batch import command_answers as answers
from elastiq.plugins.batch.command_schema import schema

TESTS = Path(__file__).resolve().parents[1]
DOCS = TESTS.parent / "docs"
INDEX = (DOCS / "batch" / "index.md").read_text("utf-8")
COMMAND = (DOCS / "batch" / "command.md").read_text("utf-8")
ABILITIES = {  # of the conformance suite, by the rows of the index
    "what waits for no machine (held, over a limit) is no demand": "blocked",
    "a job array is one entry, with its limit": "array-limit",
    "jobs that need several machines at once": "nodes",
    "which jobs a machine would run is asked before a launch": "match",
    "drain, only if no job runs there": "drain",
    "it is seen whose drain it is": "drained-by",
    "a new machine is made known to it": "register",
    "an ended one is forgotten": "forget",
    "jobs on a machine that died stay known": "lost-jobs",
    "machines on which jobs fail at once are seen": "job-starts",
    "one job is explained": "find-job",
}


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table, row by row, without the rule below the head."""
    found = re.findall(r"(?m)(?:^\|.*\|\n)+", text)
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()] for table in found]


def told(part: str) -> set[str]:
    """What the tables between this heading and the next explain."""
    text = COMMAND.partition(f"\n## {part}\n")[2].partition("\n## ")[0]
    return {name for table in tables(text) for row in table for name in re.findall(r"`([a-z_]+)`", row[0])}


def test_the_short_example_prints_what_is_a_valid_list_of_jobs_or_fails(tmp_path: Path) -> None:
    text = COMMAND.partition("    #!/bin/sh\n")[2].partition("\n\n")[0]
    program = tmp_path / "jobs"
    program.write_text("#!/bin/sh\n" + text.replace("    ", "").replace("/srv/spool/waiting", f"{tmp_path}/waiting"))

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", program, "jobs"], capture_output=True, text=True)

    assert run().returncode != 0, "no directory is no empty queue"
    (tmp_path / "waiting").mkdir()
    for number in range(3):
        found = answers.jobs(answers.listed(run().stdout))
        assert sum(group.waiting for group in found.groups) == number
        (tmp_path / "waiting" / f"job {number}").touch()


def test_the_examples_of_torque_and_pbs_are_configurations_without_a_fault(tmp_path: Path) -> None:
    whole, torque, *_ = re.findall(r"(?s)```ini\n(.*?)```", (DOCS / "batch" / "pbs.md").read_text("utf-8"))
    (tmp_path / "pbs-worker.sh").write_text("#!/bin/sh\n")
    (tmp_path / "pbs-worker.sh").chmod(0o600)
    path = tmp_path / "elastiq.conf"
    rest = whole[whole.index("[ec2]") :]
    for text in (whole, torque.replace("[elastiq]\n", "[elastiq]\ncluster_name = c\n") + rest):
        path.write_text(text)
        assert config.load(path).warnings == []


def suites() -> dict[str, type[BatchConformance]]:
    """The class that holds each batch system against the conformance suite."""
    found = {}
    for path in (TESTS / "conformance").glob("test_batch_*.py"):
        for suite in vars(importlib.import_module(f"tests.conformance.{path.stem}")).values():
            if isinstance(suite, type) and issubclass(suite, BatchConformance) and suite.__name__.startswith("Test"):
                found[suite.__name__.removeprefix("Test").lower()] = suite
    return found


def test_the_index_lists_every_batch_system_in_both_tables_with_its_page() -> None:
    systems, abilities = tables(INDEX)
    listed = [name for row in systems[2:] for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(listed) == sorted(BUILT_IN[BATCH_GROUP])
    assert [name for cell in abilities[0] for name in re.findall(r"`(\w+)`", cell)] == listed
    linked = dict(pair for row in systems[2:] for pair in re.findall(r"\[`(\w+)`\]\(([^)]+)\)", row[0]))
    assert sorted(linked) == sorted(listed)
    assert [page for page in linked.values() if not (DOCS / "batch" / page).exists()] == []


def test_the_index_says_of_no_ability_what_the_conformance_suite_does_not_ask() -> None:
    _, (head, _, *rows) = tables(INDEX)
    assert [row[0] for row in rows] == list(ABILITIES)
    told = {
        (name, ABILITIES[row[0]]): cell.startswith("yes")
        for row in rows
        for column, cell in zip(head[1:], row[1:])
        for name in re.findall(r"`(\w+)`", column)
    }
    known = suites()
    assert told == {(name, ability): ability not in known[name].cannot for name, ability in told}


def test_the_index_says_of_each_system_what_it_was_tried_with_and_of_each_ability_who_has_it() -> None:
    for table in tables(INDEX):
        for row in table[2:]:
            assert len(row) == len(table[0]) and all(row), row


@pytest.mark.parametrize(
    ("part", "name", "element"), [("The jobs", "jobs", "job"), ("The workers", "workers", "worker")]
)
def test_every_key_that_may_be_printed_is_explained_and_no_other(part: str, name: str, element: str) -> None:
    whole = schema(name)
    top = whole["properties"].keys() - {name}
    assert told(part) == top | whole["$defs"][element]["properties"].keys()


def test_every_document_that_the_page_shows_is_valid() -> None:
    shown = [re.sub("(?m)^    ", "", block) for block in re.findall(r"(?m)(?:^    .*\n)+", COMMAND)]
    first, second = (block for block in shown if block.startswith("{"))
    jobs, (workers, _) = answers.jobs(answers.listed(first)), answers.workers(second)
    assert sum(group.waiting for group in jobs.groups) == 10_001
    assert [(worker.name, worker.state.value, worker.free.cpus) for worker in workers.workers] == [
        ("node-1", "busy", 0),
        ("node-2", "idle", 4),
    ]
    assert answers.jobs(answers.listed('{"jobs": []}')).groups == ()


def test_every_executable_and_exit_code_is_explained() -> None:
    assert told("How they are called") >= {option.name for option in batch_class("command").OPTIONS} - {
        "command_timeout_s"
    }
    codes = re.findall(r"(?m)^\| (\d+) \|", COMMAND)
    assert codes == ["0", str(command.BUSY), str(command.REFUSED)]


def test_every_check_is_told_of() -> None:
    values = {option.name: "/bin/true" for option in batch_class("command").OPTIONS}
    batch = batch_class("command").from_config({**values, "command_timeout_s": 1.0}, Owner("c", "h"))
    text = COMMAND.partition("\n## Checks\n")[2].partition("\n## ")[0]
    assert [row[0] for row in tables(text)[0][2:]] == [*batch.checks()]


def test_every_variable_that_executables_get_is_told() -> None:
    source = Path(command.__file__).read_text("utf-8")
    names = {f"ELASTIQ_{name}" for name in re.findall(r'"([A-Z]+)": ', source)} | set(
        re.findall(r"ELASTIQ_[A-Z]+", source)
    )
    assert len(names) == 5 and names <= set(re.findall(r"ELASTIQ_[A-Z]+", COMMAND))
