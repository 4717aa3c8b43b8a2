"""The arguments of elastiqctl: what it understands, and its --help."""

from __future__ import annotations

import argparse
from typing import Mapping, Optional

from elastiq import __version__
from elastiq.cli.of_acting import ACTING
from elastiq.cli.of_looking import LOOKING
from elastiq.cli.of_service import SERVICE
from elastiq.cli.of_simulating import SIMULATING
from elastiq.cli.verb import Verbs

GROUPS: Mapping[str, Verbs] = {
    "see what it does and why": LOOKING,
    "change what it does": ACTING,
    "try settings without paying": SIMULATING,
    "elastiq itself": SERVICE,
}
VERBS: Verbs = {name: verb for verbs in GROUPS.values() for name, verb in verbs.items()}

EPILOG = """\
examples:
  elastiqctl demo                   a simulated cluster at work: needs no cloud, batch system or configuration
  elastiqctl check                  before the first start: is all that it needs in order?
  elastiqctl start                  check the configuration, then run elastiq as a background process
  elastiqctl status                 what it does and why; --json for programs, as with every command
  elastiqctl top                    the same, live
  elastiqctl explain                why jobs wait and nodes are kept
  elastiqctl plan                   what it would do now, by a look of its own; does nothing
  elastiqctl history --since 2h     what it has launched and ended, and why
  elastiqctl drain i-0a1b2c3d       let a machine end with its last job
  elastiqctl log -n 100             the last 100 lines of the log, and what comes after
  elastiqctl --config my.conf --statedir ./state --rundir ./run --logdir ./log start
  elastiqctl COMMAND --help         its options, examples and exit codes

usual places:      root                    others
  configuration    /etc/elastiq.conf       ~/.elastiq/elastiq.conf
  log              /var/log/elastiq        ~/.elastiq/log
  state            /var/lib/elastiq        ~/.elastiq/state
  control socket   /run/elastiq            ~/.elastiq/run
Where elastiq is a service of systemd, its places are for all, but those who have a ~/.elastiq/elastiq.conf.

exit codes: 0 done (status: running)   1 failed   2 usage   3 elastiq does not run
  4 no permission, or no answer (plan: from a source)   75 another elastiq is in the way   78 error in the configuration
"""


def parser_of_all() -> argparse.ArgumentParser:
    """elastiqctl with every command."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="elastiqctl",
        usage="elastiqctl [options] command ...",
        description=f"Control elastiq, look at it, try it out.\n{_listing()}",
        epilog=EPILOG,
        formatter_class=raw,
        allow_abbrev=False,
        parents=[_places(None)],
    )
    parser.add_argument("--version", action="version", version=f"elastiqctl {__version__}")
    # Their names, by what they are for, are in the description.
    verbs = parser.add_subparsers(
        dest="verb", prog="elastiqctl", metavar="command", required=True, help=argparse.SUPPRESS
    )
    for name, verb in VERBS.items():
        if name == "demo":  # it has its own
            verbs.add_parser(name, allow_abbrev=False, add_help=False)
            continue
        added = verbs.add_parser(
            name,
            description=verb.help[0].upper() + verb.help[1:] + ".",
            epilog=verb.epilog,
            formatter_class=raw,
            allow_abbrev=False,
            parents=[_places(argparse.SUPPRESS)],
        )
        verb.arguments(added)
        added.add_argument("--json", action="store_true", help=verb.json)
    return parser


def _listing() -> str:
    """All commands with what they do, those of one kind together."""
    lines = []
    for title, verbs in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:14}{verb.help}" for name, verb in verbs.items())]
    return "\n".join(lines)


def _places(default: Optional[str]) -> argparse.ArgumentParser:
    """The options that may stand before and after the command."""
    from elastiq.paths import path

    places = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    places.add_argument("--config", type=path, metavar="FILE", default=default, help="the configuration file")
    places.add_argument("--logdir", type=path, metavar="DIR", default=default, help="where the log is")
    places.add_argument("--statedir", type=path, metavar="DIR", default=default, help="where the durable state is")
    places.add_argument("--rundir", type=path, metavar="DIR", default=default, help="where the control socket is")
    return places
