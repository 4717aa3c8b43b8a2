"""The settings of HTCondor that place jobs are the same text wherever a person finds them."""

from __future__ import annotations

from pathlib import Path

from elastiq.whatif.placing import OLDEST_FIRST

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = "packaging/htcondor/elastiq-placement.conf"
LINES = (ROOT / EXAMPLE).read_text("utf-8").splitlines()
PAGE = (ROOT / "docs" / "htcondor.md").read_text("utf-8")


def starting(text: list[str], word: str) -> list[str]:
    return [line for line in text if line.startswith(word)]


def test_the_order_of_machines_is_the_same_in_the_example_the_documentation_and_the_simulation() -> None:
    assert [line for line in LINES if line and not line.startswith("#")] == [OLDEST_FIRST], "all that the file sets"
    told = [line.strip() for line in PAGE.splitlines() if line.startswith("    NEGOTIATOR_PRE_JOB_RANK =")]
    assert told == [OLDEST_FIRST]
    assert OLDEST_FIRST in (ROOT / "docs" / "simulate.md").read_text("utf-8")


def test_what_workers_start_is_the_same_in_the_example_and_the_documentation() -> None:
    (start,) = starting(LINES, "#START =")
    assert f"\n    {start[1:]}\n" in PAGE


def test_a_comment_of_the_example_ends_with_its_line_and_the_documentation_names_the_file() -> None:
    assert not [line for line in LINES if line.endswith("\\")]
    assert EXAMPLE in PAGE and f"/usr/share/elastiq/{EXAMPLE.partition('/')[2]}" in PAGE
