"""What check advises on a pool, out of what its daemons say; no command runs here."""

from __future__ import annotations

import json
from typing import Any, Optional

import pytest

from elastiq.command import CommandResult
from elastiq.interfaces import Jobs, SourceError
from elastiq.plugins.batch import htcondor_ads, htcondor_checks
from elastiq.whatif.placing import OLDEST_FIRST
from tests.unit.values import group


def packing(said: str, code: int = 0, error: str = "") -> tuple[str, ...]:
    def run(*argv: str) -> CommandResult:
        assert argv == ("condor_config_val", "-negotiator", "NEGOTIATOR_PRE_JOB_RANK")
        return CommandResult(code, said.encode(), error.encode())

    return htcondor_checks._order(run)


# as a 23.9 negotiator says it
DEFAULT = "(10000000 * My.Rank) + (1000000 * (RemoteOwner =?= UNDEFINED)) - (100000 * Cpus) - Memory\n \n"


@pytest.mark.parametrize("rank", [DEFAULT, "Not defined\n \n"])
def test_htcondors_default_order_is_in_order_and_told_with_what_costs_less(rank: str) -> None:
    level, text = packing(rank)
    assert level == "ok" and text.startswith("HTCondor's default (fewest free cpus first); the oldest first mostly")
    assert "docs/htcondor.md" in text


def test_the_oldest_machine_first_is_found() -> None:
    assert packing(f"{OLDEST_FIRST.partition(' = ')[2]}\n") == (
        "ok",
        "the oldest machine first (NEGOTIATOR_PRE_JOB_RANK)",
    )


def test_an_order_of_the_administrators_own_is_left_to_him() -> None:
    assert packing("Mips * 2") == ("ok", "by a NEGOTIATOR_PRE_JOB_RANK of the administrator's own: Mips * 2")


def test_a_negotiator_that_does_not_tell_its_configuration_is_unknown_and_not_ok() -> None:
    level, message, remedy = packing("Not defined: NEGOTIATOR_PRE_JOB_RANK", 1, "Can't send end of message")
    assert (
        level == "unknown"
        and "central manager" in remedy
        and message.endswith("does not tell its NEGOTIATOR_PRE_JOB_RANK: Can't send end of message")
    )

    def run(*argv: str) -> CommandResult:
        raise SourceError("condor_config_val: cannot be executed")

    level, message, _ = htcondor_checks._order(run)
    assert level == "unknown" and "is not known (condor_config_val: cannot be executed)" in message


def policy(*slots: dict[str, Any], parallel: int = 0) -> tuple[str, ...]:
    rows = [{"Machine": f"w{number}", **slot} for number, slot in enumerate(slots, 1)]
    groups = (group("a", 9), *([group("p", parallel, nodes=3)] if parallel else []))
    return htcondor_checks._start_and_rank(
        lambda: Jobs(groups), lambda *_: htcondor_ads.rows(json.dumps(rows), "condor_status")
    )


DEDICATED = 'Scheduler is "DedicatedScheduler@head"'


@pytest.mark.parametrize(
    ("slots", "parallel", "message"),
    [
        ([], 0, None),
        ([{"Start": True, "Rank": 0.0}], 0, None),
        ([{"Start": "/Expr(TARGET.RequestCpus > 1)/"}], 0, None),
        ([{"Rank": f"/Expr({DEDICATED})/"}], 0, None),
        ([{"Start": False, "SlotType": "Dynamic"}], 0, None),
        ([{"Start": False}], 0, "START is false on w1: no job ever starts there"),
        ([{"Start": False}] * 3, 0, "START is false on w1 and 2 more"),
        ([{"Rank": "/Expr(TARGET.RequestCpus)/"}], 0, "RANK on w1 is an expression over jobs: a job that it ranks"),
        ([{"Start": True}], 1, "1 parallel job can start nowhere: no worker names a dedicated scheduler"),
        ([{"Start": True}], 2, "2 parallel jobs can start nowhere"),
        ([{}, {"DedicatedScheduler": "DedicatedScheduler@head"}], 2, None),
    ],
)
def test_what_the_workers_policy_would_spoil_is_told(
    slots: list[dict[str, Any]], parallel: int, message: Optional[str]
) -> None:
    level, said, *remedy = policy(*slots, parallel=parallel)
    assert level == ("ok" if message is None else "warning")
    assert message is None or (said.startswith(message) and remedy)
