"""The commands that look and change nothing."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError

from elastiq.cli.verb import Verb, Verbs, count, name
from elastiq.cli.when import since
from elastiq.paths import path

STATUS_KEYS = "for programs: the keys of docs/status.md"


def _explain(parser: ArgumentParser) -> None:
    parser.add_argument("what", type=name, nargs="?", metavar="JOB | NODE | POOL", help="without: all that is unusual")


def _top(parser: ArgumentParser) -> None:
    parser.add_argument("--interval", type=_seconds, default=2.0, metavar="S", help="look so often (default 2)")
    parser.add_argument("-n", "--count", type=count, default=0, help="end after so many looks (0: go on)")


def _history(parser: ArgumentParser) -> None:
    parser.add_argument("--node", type=name, metavar="NAME", help="of this node, instance or launch")
    parser.add_argument("--pool", type=name, metavar="NAME", help="of this pool")
    parser.add_argument("--since", type=since, metavar="TIME", help="30m, 2h, 7d ago, or 2026-11-30, or 14:00")
    parser.add_argument("-n", "--lines", type=count, default=50, help="the last so many (default 50; 0: all there are)")
    parser.add_argument("--all", action="store_true", help="every change of state, too")


def _record(parser: ArgumentParser) -> None:
    when = "30m, 2h, 7d ago, or 2026-11-30, or 14:00"
    parser.add_argument("--since", type=since, metavar="TIME", help=f"from then on: {when} (default: all there is)")
    parser.add_argument("--until", type=since, metavar="TIME", help="up to then (default: now)")
    parser.add_argument("-o", "--output", type=path, metavar="FILE", help="into this file, not to standard output")


def _check(parser: ArgumentParser) -> None:
    parser.add_argument("--strict", action="store_true", help="a warning is an error, too")
    parser.add_argument("--timeout", type=_seconds, default=60.0, metavar="S", help="for each check (default 60)")
    parser.add_argument("--user", metavar="NAME", help="as whom elastiq runs; not given: the service's user")


def _seconds(text: str) -> float:
    """A time above nothing."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:
        raise ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


LOOKING: Verbs = {
    "status": Verb(
        "what elastiq does and why",
        "commands:status",
        examples="""\
  elastiqctl status
  elastiqctl status --json | jq '.nodes[] | select(.state == "busy") | .worker'""",
        exits="0 it runs   3 it does not   4 no permission, or no answer",
        json=STATUS_KEYS,
    ),
    "top": Verb(
        "what elastiq does, live, in a terminal (q ends)",
        "top:top",
        """\
Keys: q quit, space look now, arrows and page keys scroll, h help. With --json, a status a line for programs.""",
        """\
  elastiqctl top
  ssh head -t elastiqctl top --interval 10
  elastiqctl top --json -n 60 --interval 60 > an-hour.jsonl""",
        "0 ended   1 no terminal   3 elastiq does not run   4 no permission, or no answer",
        arguments=_top,
        json="a status a line, with the keys of docs/status.md",
    ),
    "explain": Verb(
        "why a job has no machine, why a node is kept or goes, what a pool can do",
        "commands:explain",
        "It tells what the running elastiq saw and decided last. A job is asked for in the batch system itself.",
        """\
  elastiqctl explain                every group of waiting jobs, and every node that is not busy
  elastiqctl explain 12.3           why this job has no machine yet
  elastiqctl explain i-0a1b2c3d     why this node is kept or goes; a worker's name will do, too
  elastiqctl explain ec2            a pool: its limits, what holds it back, what it can run
  elastiqctl explain --json         for programs (docs/status.md)""",
        """\
0 told   1 nothing has that name, or the job could not be asked for   3 elastiq does not run
  4 no permission, or no answer""",
        arguments=_explain,
        json=STATUS_KEYS,
    ),
    "plan": Verb(
        "look at everything once and say what elastiq would do; does nothing, runs beside the daemon or without",
        "commands:plan",
        """\
It reads the configuration, a copy of the state and, once, the queue, the workers and the instances of every site,
and plans as the daemon does. Nothing is launched, drained, ended, written or locked. Where elastiq runs, the times
that jobs have waited and nodes were idle are its own; else all jobs are taken to have waited long enough.
A read of a site that hangs is given up after 3 x (connect_timeout_s + read_timeout_s), but not within two minutes;
what there is no answer from yet is said on standard error meanwhile.""",
        """\
  elastiqctl plan                                   before the first start: what would it do?
  elastiqctl --config new.conf plan                 and what with another configuration?
  elastiqctl plan --json | jq '.launch, .drain'     for programs (docs/status.md)""",
        "0 planned   1 failed   4 a source did not answer, or no permission   78 error in the configuration",
        json=STATUS_KEYS,
    ),
    "history": Verb(
        "every launch and end with its reason, and what people commanded; newest last",
        "history:history",
        """\
It is read from the state, whether elastiq runs or not; where that may not be read, the running elastiq is asked. It
holds the last 20,000 lines.""",
        """\
  elastiqctl history                          the last 50 launches and ends
  elastiqctl history --since 2h --pool gpu
  elastiqctl history --node i-0a1b2c3d --all  the whole life of a machine
  elastiqctl history -n 0 --json | jq '.history[] | select(.what == "failed")'""",
        """\
0 shown   1 there is no state, or it is damaged   3 it may not be read here, and elastiq does not run
  4 it may not be read here, nor may elastiq be asked""",
        arguments=_history,
    ),
    "record": Verb(
        "the queue of the last weeks as a trace of jobs, to simulate with (docs/traces.md)",
        "record:record",
        """\
elastiq keeps what it sees of the queue (record_days in the configuration): counts, from which the jobs are made again.
So jobs that come and go between two looks are missing, and of jobs that ask for the same it is only known how long
they ran together; what the batch system keeps itself (condor_history, sacct) is exact. Times at which elastiq did not
run or had no answer are gaps. Works with or without a running elastiq, for root and the user as whom it runs.""",
        """\
  elastiqctl record -o queue.csv                  all that is kept, for elastiqctl simulate queue.csv
  elastiqctl record --since 7d > week.csv
  elastiqctl record --since 2026-11-01 --until 2026-11-08 -o week.csv
  elastiqctl record --json                        only how much there is""",
        "0 written   1 nothing is recorded   4 no permission",
        arguments=_record,
    ),
    "check": Verb(
        "look at all that elastiq needs before its first launch, and say what to do",
        "check:check",
        """\
It looks at the configuration, this machine, the batch system and every site, side by side, as the user as whom elastiq
runs: run it as root, which becomes that user. Nothing is launched, drained, ended or changed; what would be is asked
for as a dry run where the cloud surely knows that. What cannot be found out is `unknown`, and hides nothing else.
docs/check.md says what each check means.""",
        """\
  elastiqctl check                                  before the first start, and after a change
  elastiqctl --config new.conf check                what of another configuration?
  elastiqctl check --json | jq '.checks[] | select(.level != "ok")'
  elastiqctl check --strict || mail -s elastiq root""",
        """\
0 all is ok, or there are warnings   1 an error; with --strict: or a warning
  4 no error, but something could not be found out   78 error in the configuration""",
        arguments=_check,
        json="for programs: the keys of docs/check.md",
    ),
    "metrics": Verb(
        "the figures that Prometheus collects, in its text format (docs/metrics.md)",
        "metrics:metrics",
        "It needs no [metrics] section. What is counted call by call begins when they are asked for the first time.",
        """\
  elastiqctl metrics | grep elastiq_nodes
  elastiqctl metrics > /var/lib/prometheus/node-exporter/elastiq.prom    for node_exporter's textfile collector""",
        "0 printed   3 elastiq does not run   4 no permission, or no answer",
        json="for programs: a list of families with their samples",
    ),
}
