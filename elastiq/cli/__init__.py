"""The console command `elastiqctl`: control the daemon, look at it, try it out."""

from __future__ import annotations

import argparse
import io
import os
import sys
from typing import Any, Callable, Mapping, Optional, Sequence

from elastiq import __version__

EPILOG = """\
examples:
  elastiqctl demo                   a simulated cluster at work: needs no cloud, batch system or configuration
  elastiqctl start                  check the configuration, then run elastiq as a background process
  elastiqctl status                 what it does and why; --json for programs
  elastiqctl explain                why jobs wait and nodes are kept
  elastiqctl plan                   what it would do now, by a look of its own; does nothing
  elastiqctl log -n 100             the last 100 lines of the log, and what comes after
  elastiqctl --config my.conf --statedir ./state --rundir ./run --logdir ./log start

usual places:      root                    others
  configuration    /etc/elastiq.conf       ~/.elastiq/elastiq.conf
  log              /var/log/elastiq        ~/.elastiq/log
  state            /var/lib/elastiq        ~/.elastiq/state
  control socket   /run/elastiq            ~/.elastiq/run

exit codes: 0 done (status: running)   1 failed   2 usage   3 status, explain: not running
  4 no permission, or no answer (plan: from a source)   75 another elastiq is in the way   78 error in the configuration
"""

_MORE: Mapping[str, str] = {
    "plan": """\
It reads the configuration, a copy of the state and, once, the queue, the workers and the instances of every site,
and plans as the daemon does. Nothing is launched, drained, ended, written or locked. Where elastiq runs, the times
that jobs have waited and nodes were idle are its own; else all jobs are taken to have waited long enough.
A read of a site that hangs is given up after 3 x (connect_timeout_s + read_timeout_s), but not within two minutes;
what there is no answer from yet is said on standard error meanwhile.

examples:
  elastiqctl plan                                   before the first start: what would it do?
  elastiqctl --config new.conf plan                 and what with another configuration?
  elastiqctl plan --json | jq '.launch, .drain'     for programs (docs/status.md)

exit codes: 0 planned   1 failed   4 planned, but a source did not answer   78 error in the configuration
""",
    "explain": """\
It tells what the running elastiq saw and decided last. A job is asked for in the batch system itself.

examples:
  elastiqctl explain                every group of waiting jobs, and every node that is not busy
  elastiqctl explain 12.3           why this job has no machine yet
  elastiqctl explain i-0a1b2c3d     why this node is kept or goes; a worker's name will do, too
  elastiqctl explain ec2            a pool: its limits, what holds it back, what it can run
  elastiqctl explain --json         for programs (docs/status.md)

exit codes: 0 told   1 nothing has that name, or the job could not be asked for   3 elastiq does not run
  4 no permission, or no answer
""",
    "drain-pool": """\
Its idle machines end whatever their idle time; busy ones end when they have become idle: no job is ended. Its
min_vms and min_idle_vms do not hold meanwhile; that of the cluster does, by machines of other pools. It outlives
restarts, until `elastiqctl undrain-pool NAME`.
""",
}


_VERBS: Mapping[str, str] = {
    "start": "check the configuration, then start elastiq in the background; 0 also if it runs already",
    "stop": "end elastiq and wait for its end; machines and jobs stay; 0 also if it does not run",
    "restart": "check the configuration, then stop and start",
    "status": "what elastiq does and why",
    "plan": "look at everything once and say what elastiq would do; does nothing, runs beside the daemon or without",
    "explain": "why a job has no machine, why a node is kept or goes, what a pool can do",
    "log": "show the end of the log and follow it (Ctrl-C ends)",
    "conf": "show versions, places and the keys that are set (no secret)",
    "drain-pool": "take a pool out of service: nothing is launched there, and what is idle there ends",
    "undrain-pool": "take a pool back into service",
    "adopt": "take over the instances that another head node left to this cluster",
    "demo": "run elastiq on a simulated cluster (options: elastiqctl demo --help)",
}


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run one command; returns its exit code. No input of a person ends in a traceback."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # closed by the caller
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a letter gets a `?`
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # What is still to be written would fail once more when Python leaves.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):  # `elastiqctl log | head`: the reader has had enough
            return 0
        print(f"elastiqctl: {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
        return 4 if isinstance(error, PermissionError) else 1


def _run(argv: list[str]) -> int:
    parser = _parser()
    args, rest = parser.parse_known_args(argv)
    if args.verb == "demo":
        from elastiq.simulation import demo

        return int(demo.main(rest))
    if rest:
        parser.error(f"unknown argument {rest[0]!r}; see elastiqctl {args.verb} --help")
    from elastiq.cli import commands
    from elastiq.paths import Paths

    run: Callable[[Paths, Any], int] = getattr(commands, args.verb.replace("-", "_"))
    return run(Paths.of(args.config, args.logdir, args.statedir, args.rundir), args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="elastiqctl",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        parents=[_places(None)],
    )
    parser.add_argument("--version", action="version", version=f"elastiqctl {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="command", required=True)
    added = {
        verb: verbs.add_parser(
            verb,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=_MORE.get(verb),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=verb != "demo",  # it has its own
            parents=[] if verb == "demo" else [_places(argparse.SUPPRESS)],
        )
        for verb, text in _VERBS.items()
    }
    for verb in ("plan", "explain"):
        added[verb].add_argument("--json", action="store_true", help="for programs: the keys of docs/status.md")
    added["explain"].add_argument("what", nargs="?", metavar="JOB | NODE | POOL", help="without: all that is unusual")
    added["status"].add_argument("--json", action="store_true", help="the stable keys of docs/status.md")
    added["log"].add_argument(
        "-n", "--lines", type=_count, default=20, help="so many lines first (default 20)"
    )
    added["log"].add_argument("--no-follow", action="store_true", help="end there")
    for verb in ("drain-pool", "undrain-pool"):
        added[verb].add_argument("pool", metavar="NAME", help="`ec2`, or the NAME of a section [ec2:NAME]")
    added["adopt"].add_argument("--yes", action="store_true", help="do not ask")
    return parser


def _places(default: Optional[str]) -> argparse.ArgumentParser:
    """The options that may stand before and after the command."""
    from elastiq.paths import path

    places = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    places.add_argument("--config", type=path, metavar="FILE", default=default, help="the configuration file")
    places.add_argument("--logdir", type=path, metavar="DIR", default=default, help="where the log is")
    places.add_argument("--statedir", type=path, metavar="DIR", default=default, help="where the durable state is")
    places.add_argument("--rundir", type=path, metavar="DIR", default=default, help="where the control socket is")
    return places


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines")
    return int(text)
