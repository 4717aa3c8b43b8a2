"""The command that tries settings on a workload that was."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError
from datetime import datetime
from typing import Optional

from elastiq.cli.verb import Verb, Verbs, count, name
from elastiq.cli.when import UNITS_S
from elastiq.interfaces import Resources
from elastiq.whatif.placing import ANY, DEFAULT, PLACEMENTS, STARTS

RUNS = 60
Price = tuple[str, float]
Flavour = tuple[str, Resources]
Moment = tuple[Optional[float], Optional[float]]  # seconds since the first job, or a wall time


def _simulate(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("trace", type=name, nargs="?", metavar="TRACE", help="a file of jobs; - is standard input")
    add("--example", action="store_true", help="instead of a TRACE: jobs drawn from a published model")
    add("--format", type=name, metavar="NAME", help="of the TRACE, where it is not found out (docs/traces.md)")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="another value of a key; may be repeated")
    add(
        "--sweep",
        action="append",
        default=[],
        metavar="KEY=V,V,...",
        help="a run for each value; several: for all pairs",
    )
    add("--report", type=name, metavar="FILE", help="write a page with plots there (HTML, one file)")
    add("--csv", nargs="?", const="-", metavar="FILE", help="a line for each run, with the names of --json")

    of_machines = parser.add_argument_group("what machines are, where the configuration does not say it")
    add = of_machines.add_argument
    add("--flavour", type=flavour, action="append", default=[], metavar="NAME=CPUS[:MB[:GPUS]]", help="what it has")
    add(
        "--price", type=price, action="append", default=[], metavar="[NAME=]PRICE", help="an hour; of a pool or flavour"
    )
    add(
        "--boot-time",
        type=boot_time,
        metavar="S[-S]",
        help="until a machine is a worker (what was seen here, else 120)",
    )
    add("--billed-by", type=_above_0, default=1.0, metavar="S", help="its time is paid in units of S seconds (1)")

    of_htcondor = parser.add_argument_group("how HTCondor places jobs (docs/htcondor.md)")
    add = of_htcondor.add_argument
    add("--placement", choices=tuple(PLACEMENTS), help=f"which machine is filled first ({DEFAULT})")
    add("--start", choices=STARTS, help=f"jobs that a machine starts: of more than half of it ({ANY})")

    of_trace = parser.add_argument_group("what of the trace")
    add = of_trace.add_argument
    add("--from", dest="begin", type=moment, default=(None, None), metavar="TIME", help="a date, or 3d: 3 days into it")
    add("--until", dest="end", type=moment, default=(None, None), metavar="TIME", help="likewise")
    add("--days", type=_above_0, metavar="N", help="only so many days")
    add("--split-at", type=_above_0, metavar="CPUS", help="a job of more cores becomes several of at most so many")

    search = parser.add_argument_group("search")
    add = search.add_argument
    add("--suggest", action="store_true", help="search for settings that cost less, and such that wait less")
    add("--max-wait", type=_not_below_0, metavar="S", help="with --suggest: least cost with at most this wait")
    add("--max-cost", type=_not_below_0, metavar="X", help="with --suggest: least wait at at most this cost")
    add("--wait-as", choices=("p95", "mean", "median"), help="which wait that is (default p95)")
    add("--quota-up-to", type=count, metavar="N", help="max_vms may be raised to so many")
    add("--runs", type=_from_1, metavar="N", help=f"at most so many simulations (default {RUNS})")

    add = parser.add_argument
    add("--seed", type=int, default=1, metavar="N", help="of boot times (default 1)")
    add("--processes", type=_from_1, metavar="N", help="so many runs at a time (default: as there are processors)")


def _above_0(text: str) -> float:
    value = _number(text)
    if value <= 0:
        raise ArgumentTypeError(f"{text!r} is not above 0")
    return value


def _from_1(text: str) -> int:
    value = count(text)
    if value < 1:
        raise ArgumentTypeError(f"{text!r} is not 1 or more")
    return value


def _not_below_0(text: str) -> float:
    return _number(text)


def _number(text: str) -> float:
    if not re.fullmatch(r"[0-9]+\.?[0-9]*|\.[0-9]+", text.strip()):
        raise ArgumentTypeError(f"{text!r} is no number, 0 or more")
    return float(text)


def boot_time(text: str) -> tuple[float, float]:
    """Seconds, or a range of them: from and to."""
    low, dash, high = text.partition("-")
    try:
        found = _number(low), _number(high if dash else low)
    except ArgumentTypeError:
        raise ArgumentTypeError(f"{text!r} is not of the form 120 or 90-180, in seconds") from None
    if found[1] < found[0]:
        raise ArgumentTypeError(f"{text!r} ends before it begins")
    return found


def price(text: str) -> Price:
    """Of all, or of a pool or flavour."""
    name, _, value = text.rpartition("=")
    try:
        return name.strip(), _number(value)
    except ArgumentTypeError:
        raise ArgumentTypeError(f"{text!r} is not of the form 0.10, POOL=0.10 or FLAVOUR=0.10") from None


def flavour(text: str) -> Flavour:
    """A name, and what a machine has: cores, MB of memory, GPUs."""
    name, equals, value = text.partition("=")
    try:
        cpus, memory_mb, gpus, *more = [*map(_number, value.split(":")), None, None][: max(3, value.count(":") + 1)]
        if not equals or more or not cpus:
            raise ArgumentTypeError
    except ArgumentTypeError:
        raise ArgumentTypeError(f"{text!r} is not of the form NAME=CPUS[:MEMORY_MB[:GPUS]], as large=8:32000") from None
    return name.strip(), Resources(cpus, memory_mb or None, None, gpus)


def moment(text: str) -> Moment:
    """So long after the first job, as 3d or 12h; or a local date."""
    after = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.strip())
    if after and after[2] in UNITS_S:
        return float(after[1]) * UNITS_S[after[2]], None
    try:
        return None, datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        forms = "3d (into the trace), 2026-11-30 or '2026-11-30 14:00'"
        raise ArgumentTypeError(f"{text!r} is no time: say it as {forms}") from None


SIMULATING: Verbs = {
    "simulate": Verb(
        "replay a workload with your settings before paying for them: waiting, machine-hours, cost",
        "simulate:simulate",
        """\
It plays the jobs of a trace (a log of HTCondor, Slurm, Grid Engine or Torque, .swf, CSV: docs/traces.md) through
elastiq itself on simulated machines. It needs no cloud, no batch system, no keys, and changes nothing. KEY is as in
the configuration: idle_for_time_s, quota.max_vms, ec2.flavour, pool:NAME.key. Without a configuration it takes the
defaults. docs/simulate.md says what it assumes, and what each figure means.""",
        """\
  elastiqctl simulate --example                               without a trace of your own
  elastiqctl simulate jobs.swf --price 0.17 --report out.html
  elastiqctl simulate jobs.csv --sweep idle_for_time_s=60,300,3600 --sweep max_vms=10,20
  elastiqctl simulate jobs.csv --suggest --max-wait 300       what to change, to wait 5 minutes at most
  elastiqctl --config new.conf simulate history.json.gz --flavour c5.xlarge=4:8192 --json""",
        """\
0 done (with --suggest: also if nothing better was found)   1 the trace cannot be read
  2 usage, or an unknown key   4 no permission   78 error in the configuration   130 interrupted""",
        arguments=_simulate,
        json="for programs: an object, for a sweep a list (docs/simulate.md)",
    )
}
