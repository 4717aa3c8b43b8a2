"""The checker can fail: every planted fault is caught in the scenario that was kept for it."""

from __future__ import annotations

import pytest

from elastiq.simulation import search
from elastiq.simulation.shrink import tell
from elastiq.simulation.trial import run
from tests.mutants.hunt import by_name, catches, recorded, under
from tests.mutants.planting import Change, DoesNotApply, Mutant, planted
from tests.mutants.table import MUTANTS

SCENARIOS = recorded()


def test_the_table_has_enough_of_them_and_a_scenario_for_each() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names) >= 25
    assert sorted(SCENARIOS) == sorted(names)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_mutant_is_caught_and_the_daemon_without_it_is_not(mutant: Mutant) -> None:
    scenario = SCENARIOS[mutant.name]
    report = under(mutant, scenario)
    assert catches(mutant, report), f"python3 -m tests.mutants --only '{mutant.name}' --record; {report.violations}"
    assert run(scenario).violations == (), tell(scenario)


def test_a_mutant_of_code_that_has_changed_says_so_and_leaves_nothing_behind() -> None:
    mutant = Mutant("of nothing", "I1", (Change(Change, "__init__", "nowhere to be found", ""),))
    before = Change.__init__
    with pytest.raises((DoesNotApply, OSError)), planted(mutant):
        pass
    assert Change.__init__ is before


def test_the_search_tells_how_to_see_a_failure_again(capsys: pytest.CaptureFixture[str]) -> None:
    with planted(by_name("ends the head node with the others")):
        assert search.main(["--seeds", "8", "--jobs", "2", "--stop-after", "1"]) == 1
    said = capsys.readouterr().out
    assert "I3" in said and "terminate of the head node i-head" in said
    again = said.rpartition("again: python3 -m elastiq.simulation.search ")[2].split()
    with planted(by_name("ends the head node with the others")):
        assert search.main(again) == 1
    assert "terminate of the head node i-head" in capsys.readouterr().out
    assert search.main(again) == 0
