"""The commands that look and change nothing."""

from __future__ import annotations

from argparse import ArgumentParser

from elastiq.cli.verb import Verb, Verbs

STATUS_KEYS = "for programs: the keys of docs/status.md"


def _explain(parser: ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", metavar="JOB | NODE | POOL", help="without: all that is unusual")


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
        "0 planned   1 failed   4 planned, but a source did not answer   78 error in the configuration",
        json=STATUS_KEYS,
    ),
}
