"""The commands that change what elastiq does. They are for root and for the user that it runs as."""

from __future__ import annotations

from argparse import ArgumentParser

from elastiq.cli.verb import Verb, Verbs

EXITS = "0 done   1 refused   3 elastiq does not run   4 no permission, or no answer"


def _pool(parser: ArgumentParser) -> None:
    parser.add_argument("pool", metavar="NAME", help="`ec2`, or the NAME of a section [ec2:NAME]")


def _yes(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")


ACTING: Verbs = {
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
