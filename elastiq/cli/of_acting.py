"""The commands that change what elastiq does. They are for root and for the user that it runs as."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from typing import Optional

from elastiq.cli.verb import Verb, Verbs, count, name, reason

EXITS = "0 done   1 refused   3 elastiq does not run   4 no permission, or no answer"


def _pool(parser: ArgumentParser) -> None:
    parser.add_argument("pool", type=name, metavar="NAME", help="`ec2`, or the NAME of a section [ec2:NAME]")


def _switches(parser: ArgumentParser) -> None:
    parser.add_argument("--launch", action="store_true", help="only launches")
    parser.add_argument("--terminate", action="store_true", help="only drains and ends")


def _pause(parser: ArgumentParser) -> None:
    _switches(parser)
    parser.add_argument("--reason", type=reason, metavar="TEXT", help="is shown in the status, the log and the history")


def _machines(text: str) -> Optional[int]:
    try:
        return None if text == "auto" else count(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, nor `auto`") from None


def _scale(parser: ArgumentParser) -> None:
    parser.add_argument("vms", type=_machines, metavar="N | auto", help="so many machines; auto: as configured")
    parser.add_argument("--pool", type=name, metavar="NAME", help="of this pool; without: of the whole cluster")


def _node(parser: ArgumentParser) -> None:
    told = "an instance id, a node or a worker; its first part will do"
    parser.add_argument("node", type=name, metavar="NODE", help=told)


def _drain(parser: ArgumentParser) -> None:
    _node(parser)
    parser.add_argument("--reason", type=reason, metavar="TEXT", help="is shown in the status, the log and the history")


def _terminate(parser: ArgumentParser) -> None:
    _node(parser)
    parser.add_argument("--force", action="store_true", help="also with jobs on it: names those that it kills")
    _yes(parser)


def _yes(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")


ACTING: Verbs = {
    "pause": Verb(
        "launch no machine, and drain and end none, until resume",
        "acting:pause",
        """\
The daemon goes on to look and to plan: what it would do is logged, and shown by `elastiqctl status`. It outlives
restarts. Machines and jobs stay as they are; an end that was begun is not asked for again meanwhile.""",
        """\
  elastiqctl pause --reason "site upgrade"    both
  elastiqctl pause --launch                   spend no more, but let idle machines go""",
        EXITS,
        arguments=_pause,
    ),
    "resume": Verb(
        "launch and end again",
        "acting:resume",
        "What the configuration says (`launch = no`, `terminate = no`) holds all the same.",
        """\
  elastiqctl resume                 all that pause has stopped
  elastiqctl resume --terminate     only drains and ends""",
        EXITS,
        arguments=_switches,
    ),
    "scale": Verb(
        "bring the cluster or a pool to so many machines, and hold it there",
        "acting:scale",
        """\
N takes the place of min_vms, also of one that a schedule sets: machines are launched up to N, and idle ones go down
to N when their idle time is up. Jobs may bring more, up to max_vms, which stays as it is: an N above it is refused.
It outlives restarts, until `elastiqctl scale auto`.""",
        """\
  elastiqctl scale 20               have 20 machines before the course begins
  elastiqctl scale 4 --pool gpu
  elastiqctl scale auto             and back to what jobs and the configuration ask for""",
        EXITS,
        arguments=_scale,
    ),
    "drain": Verb(
        "let a machine take no more jobs, and end when its last one has ended",
        "acting:drain",
        """\
No job is ended. It is drained whatever the minima are; where they need it, another is launched. It outlives
restarts, until `elastiqctl undrain NODE`. Where the batch system cannot drain, it ends once it is idle.""",
        """\
  elastiqctl drain i-0a1b2c3d --reason "its disk fails"
  elastiqctl drain ip-10-0-0-7      by the first part of its worker's name""",
        EXITS,
        arguments=_drain,
    ),
    "undrain": Verb(
        "let a machine that a person drained, or elastiq as a black hole, take jobs again",
        "acting:undrain",
        examples="""\
  elastiqctl undrain i-0a1b2c3d""",
        exits=EXITS,
        arguments=_node,
    ),
    "terminate": Verb(
        "end a machine now; refused, with the names of the jobs, if it runs any",
        "terminating:terminate",
        """\
It asks first. The machine is drained where that is possible, and ended when a look that began after the drain shows
no job there; a job that slips in keeps it. It is refused, too, while it is not known whether jobs run.
With --force it ends all the same: its jobs are named, and only those that were named die, as far as the batch system
can keep others off it.""",
        """\
  elastiqctl terminate i-0a1b2c3d           an idle one, or one that hangs at its boot
  elastiqctl terminate i-0a1b2c3d --force   shows which jobs die, and asks
  elastiqctl terminate i-0a1b2c3d --force --yes --json""",
        "0 its end was asked for   1 refused, or not done   3 elastiq does not run   4 no permission, or no answer",
        arguments=_terminate,
    ),
    "drain-pool": Verb(
        "take a pool out of service: nothing is launched there, and what is idle there ends",
        "acting:drain_pool",
        """\
Its idle machines end whatever their idle time; busy ones end when they have become idle: no job is ended. Its
min_vms and min_idle_vms do not hold meanwhile; that of the cluster does, by machines of other pools. It outlives
restarts, until `elastiqctl undrain-pool NAME`.""",
        """\
  elastiqctl drain-pool gpu         before its image, its account or its site goes away""",
        EXITS,
        arguments=_pool,
    ),
    "undrain-pool": Verb(
        "take a pool back into service",
        "acting:undrain_pool",
        examples="""\
  elastiqctl undrain-pool gpu       also one that is configured no more""",
        exits=EXITS,
        arguments=_pool,
    ),
    "adopt": Verb(
        "take over the instances that another head node left to this cluster",
        "acting:adopt",
        "It lists them and asks. They are nodes as all others once the cloud has confirmed it.",
        """\
  elastiqctl adopt                  after a head node was built anew
  elastiqctl adopt --yes --json     in a script""",
        EXITS,
        arguments=_yes,
    ),
}
