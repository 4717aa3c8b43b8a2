"""Plans that are sure to do nothing are the planner's own, and those of a full cluster are sure."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any, Iterator

import pytest

from elastiq import planner
from elastiq.core import Core
from elastiq.daemon import Daemon
from elastiq.idling import AUTO
from elastiq.interfaces import Pool, Resources, Terms
from elastiq.settings import Settings
from elastiq.simulation import cluster, sure
from elastiq.situation import Plan, Situation
from elastiq.traces.job import TraceJob
from elastiq.whatif.study import play
from elastiq.whatif.synthetic import LublinFeitelson
from elastiq.whatif.terms import Assumed

ASSUMED = Assumed({"m": Resources(cpus=8, memory_mb=32_000)}, boot_s=(90.0, 150.0), seed=5)
PLAIN = Terms()


def jobs() -> Iterator[TraceJob]:
    for job in islice(LublinFeitelson(4, 60, largest=32, stretch=0.2, part_cpus=8.0), 90):
        yield job._replace(run_s=min(job.run_s, 4000.0))


def settings(*limits: int, terms: Terms = PLAIN, **changed: Any) -> Settings:
    pools = tuple(Pool(f"p{most}", "site", ("m",), max_vms=most, terms=terms) for most in limits or (4,))
    return Settings("sure", pools, **{"max_vms": 4, "idle_for_time_s": 300.0, **changed})


KINDS = {
    "one quota": settings(),
    "the pools' quotas": settings(1, 2, max_vms=None),
    "auto": settings(idle_for_time_s=AUTO),
    "a minimum and spares": settings(min_vms=2, terms=Terms(min_idle_vms=1)),
    "lifetime": settings(terms=Terms(max_vm_lifetime_s=4000.0)),
    "stop": settings(terms=Terms(idle_action="stop")),
    "emptied": settings(consolidate=True),
    "an impatient unused_room_s": settings(unused_room_s=20.0, waiting_jobs_time_s=0.0),
    "in turns": settings(job_length_s=60.0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_sure_plan_does_what_the_planner_would(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sure_ones, fallen_back = 0, object()

    def both(s: Situation) -> Plan:
        nonlocal sure_ones
        full = planner.plan(s)
        with monkeypatch.context() as patched:
            patched.setattr(planner, "plan", lambda _: fallen_back)
            made = sure.plan(s)
        if made is not fallen_back:
            sure_ones += 1
            assert made == replace(full, verdicts=made.verdicts, summary=made.summary)
            assert {one.group.key: one.group for one in made.verdicts} == {v.group.key: v.group for v in full.verdicts}
        return full

    def daemon(core: Core, plans: object) -> Daemon:
        assert plans is sure.plan
        return Daemon(core, plans=both)

    monkeypatch.setattr(cluster, "Daemon", daemon)
    found = play(KINDS[kind], jobs(), ASSUMED)
    assert found.jobs_done > 60 and found.peak_vms > 2
    assert (sure_ones > 50) is (kind != "emptied")
