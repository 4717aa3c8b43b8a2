"""What is wrong with telling the batch system of machines."""

from __future__ import annotations

from dataclasses import replace

from elastiq import preparing
from elastiq.interfaces import Terms
from elastiq.simulation.scenario import Scenario
from tests.mutants.bends import both, jobs, often, setting
from tests.mutants.planting import Change, Mutant

FAIL = often("records_fail", for_s=400.0)


def registers(scenario: Scenario) -> Scenario:
    return replace(scenario, registers=True)


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "asks the batch system but once",
        "I4",
        (
            Change(
                preparing.Records,
                "_act",
                "core.now() + min(LONGEST_RETRY_S, RETRY_S * 2 ** min(failures - 1, 10))",
                "float('inf')",
            ),
        ),
        both(registers, jobs(), FAIL),
    ),
    Mutant(
        "forgets in a restart what the batch system is to forget",
        "I4",
        (Change(preparing.Records, "__init__", "dict(core.store.recall(STORED) or {})", "{}"),),
        both(registers, jobs(), FAIL, often("kill", at="unregister", number=1, for_s=300.0, down_s=60.0)),
    ),
    Mutant(
        "takes a machine off that starts again",
        "I6",
        (Change(preparing.Records, "follow", "if back and", "if False and"),),
        both(registers, jobs(6), FAIL, setting(pools_terms=Terms(idle_action="stop"))),
    ),
)
