"""How good the policy is, in one table per workload.

    python3 benchmarks/policy                      # all workloads, 10 seeds
    python3 benchmarks/policy --quick              # the burst and two days, 1 seed
    python3 benchmarks/policy --only hpc2n --seeds 3 --elastiq 'idle_for_time_s=60' --elastiq 'idle_for_time_s=120'

ELASTIQ_TRACES names a directory with the real traces; without it they are left out, and a line says so. It ends with
1 if a rule of others is better than elastiq's default on some workload, and with 2 if its arguments are wrong.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
import time
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Callable, Sequence, Union

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.memory import machine
from benchmarks.policy import elastiq_rule, experiments, measure, rules, workloads
from benchmarks.policy.bound import Bounds, bounds
from benchmarks.policy.ground import PLACEMENTS, Ground, Played, Runner, Workload, play
from elastiq.inifile import ConfigError

DEFAULT = "elastiq"
PREFERRED = ("wait", "cost")  # what else `prefer` may say: elastiq's own, no rivals of its default
DOMINATED = 1
QUICK = ("burst", "daily")
QUICK_DAYS = 2
Maker = Callable[[Workload, int], Any]


def rivals(least: Bounds, workload: Workload) -> dict[str, Maker]:
    """The rules by their names; a fixed cluster's size is known to who knows the workload."""
    work_h = sum(job.run_s * (job.request.cpus or 0.0) for job in workload.jobs) / workload.cpus / 3600.0
    span_h = max(workload.span_s, max(job.at_s + job.run_s for job in workload.jobs)) / 3600.0
    return {
        "1.0, idle 3600": partial(rules.Version1, idle_for_time_s=3600.0),
        "1.0, idle 600": partial(rules.Version1, idle_for_time_s=600.0),
        "Slurm, idle 300": rules.SlurmPowerSaving,
        "cluster-autoscaler": rules.ClusterAutoscaler,
        "linear controller": rules.LinearController,
        "fixed at peak": partial(rules.Fixed, machines=least.peak),
        "fixed at mean": partial(rules.Fixed, machines=max(1, math.ceil(work_h / span_h))),
    }


def played(maker: Maker, workload: Workload, seed: int) -> Played:
    """One rule on one workload."""
    runner: Runner = maker(workload, seed)
    world: Ground = runner.world  # type: ignore[attr-defined]
    return play(workload, world, runner)


def compare(
    name: str, seeds: Sequence[int], variants: Sequence[str], make: Callable[[str, int], Workload], alone: bool
) -> tuple[list[measure.Measured], list[Bounds]]:
    """All rules on one workload."""
    plays: dict[str, list[Played]] = {}
    least = []
    for seed in seeds:
        workload = make(name, seed)
        bound = bounds(workload.jobs, workload.cpus, fmean(workload.boot_s), bool(workload.flavours))
        least.append(bound)
        makers: dict[str, Maker] = {DEFAULT: partial(elastiq_rule.Elastiq, changed={})}
        for text in variants:
            makers[f"{DEFAULT}, {text}"] = partial(elastiq_rule.Elastiq, changed=elastiq_rule.parsed(text))
        if not alone:
            for said in PREFERRED:
                makers[f"{DEFAULT}, prefer = {said}"] = partial(elastiq_rule.Elastiq, changed={"prefer": said})
            makers.update(rivals(bound, workload))
        for rule, maker in makers.items():
            plays.setdefault(rule, []).append(played(maker, workload, seed))
    return measure.with_frontier([measure.measured(rule, of, least) for rule, of in plays.items()]), least


def main(argv: Sequence[str] = ()) -> int:
    """The exit code."""
    parser = _parser()
    asked = parser.parse_args(argv)
    try:
        for text in asked.elastiq:
            elastiq_rule.settings_of(workloads.burst(1), elastiq_rule.parsed(text))
    except (ValueError, ConfigError) as error:
        parser.error(f"--elastiq: {error}")
    names = asked.only or (QUICK if asked.quick else (*workloads.TUNE, *workloads.REPORT))
    seeds = range(1, 1 + (1 if asked.quick else asked.seeds))
    found: dict[str, Any] = {}
    if not asked.json:
        print(f"{machine()}; Python {sys.version.split()[0]}; seeds {seeds.start} to {seeds.stop - 1}")
    for name in names:
        if name in workloads.REAL and workloads.traces() is None:
            print(f"{name}: skipped, {workloads.ENVIRONMENT} names no directory of traces", file=sys.stderr)
            continue
        began = time.process_time()
        if asked.experiments:
            rows = experiments.tried(partial(_make, asked, name), seeds)
            _show(f"{name}: {_make(asked, name, 1).about}", experiments.table(rows), asked.markdown)
            continue
        rows, least = compare(name, seeds, asked.elastiq, partial(_make, asked), asked.alone or bool(asked.flavours))
        half = "tuned on" if name in workloads.TUNE else "reported"
        about = _make(asked, name, 1).about
        found[name] = {
            "half": half,
            "bound_h": fmean(b.at_boot for b in least),
            "work_h": fmean(b.floor for b in least),
            "dominated_by": _dominating(rows),
            "rules": [row.as_dict() for row in rows],
        }
        if not asked.json:
            title = f"{name} ({half}): {about}" + ("" if asked.markdown else f"; {time.process_time() - began:.1f} s")
            _show(title, measure.table(rows, least), asked.markdown)
    if asked.json:
        print(json.dumps(found))
    lost = [f"{name}: {by} is better than {DEFAULT}" for name, one in found.items() if (by := one["dominated_by"])]
    if lost:
        print("\n".join(lost), file=sys.stderr)
    return DOMINATED if lost else 0


def _show(title: str, lines: Sequence[Sequence[str]], markdown: bool) -> None:
    print(f"\n### {title}\n" if markdown else f"\n{title}")
    print(measure.aligned(lines, markdown), flush=True)


def _dominating(rows: Sequence[measure.Measured]) -> str:
    """The rule of others that is better than elastiq's default; empty where there is none."""
    (own,) = (row for row in rows if row.rule == DEFAULT)
    others = [row for row in rows if not row.rule.startswith(DEFAULT)]
    return next((row.rule for row in others if measure.dominates(row, own)), "")


def _make(asked: argparse.Namespace, name: str, seed: int) -> Workload:
    workload = workloads.daily(seed, QUICK_DAYS) if asked.quick and name == "daily" else workloads.made(name, seed)
    assert workload is not None
    return experiments.shaped(workload, asked.flavours, asked.placement)


def _flavours(text: str) -> Union[Sequence[float], str]:
    return text if text == experiments.OWN else tuple(float(part) for part in text.split(","))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="policy", description="How good the policy is, against the rules of others.")
    parser.add_argument("--seeds", type=int, default=10, help="how many (10)")
    parser.add_argument("--quick", action="store_true", help="one seed of the burst and of two days")
    known = (*workloads.TUNE, *workloads.REPORT)
    parser.add_argument("--only", action="append", choices=known, help="this workload; may be given again")
    parser.add_argument(
        "--elastiq", action="append", default=[], metavar="'KEY=VALUE ...'", help="elastiq with these settings, too"
    )
    parser.add_argument(
        "--flavours",
        type=_flavours,
        default=(),
        help="cores of the flavours, as 1,2,4,8, or own: of the jobs' sizes; elastiq alone",
    )
    parser.add_argument("--placement", choices=list(PLACEMENTS), default="fullest", help="of jobs (fullest)")
    parser.add_argument("--alone", action="store_true", help="elastiq alone, without the rules of others")
    parser.add_argument("--experiments", action="store_true", help="what each single change does to elastiq's default")
    parser.add_argument("--markdown", action="store_true", help="tables for docs/policy.md")
    parser.add_argument("--json", action="store_true", help="one object instead of the tables")
    return parser


if __name__ == "__main__":
    logging.getLogger("elastiq").setLevel(logging.ERROR)
    sys.exit(main(sys.argv[1:]))
