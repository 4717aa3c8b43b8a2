"""The commands about elastiq itself: it starts, ends, and reads its configuration."""

from __future__ import annotations

from argparse import ArgumentParser

from elastiq.cli.verb import Verb, Verbs, count


def _log(parser: ArgumentParser) -> None:
    parser.add_argument("-n", "--lines", type=count, default=20, help="so many lines first (default 20)")
    parser.add_argument("--no-follow", action="store_true", help="end there")


SERVICE: Verbs = {
    "start": Verb(
        "check the configuration, then start elastiq in the background; 0 also if it runs already",
        "commands:start",
        examples="""\
  elastiqctl start                  as it is installed
  elastiqctl --config my.conf --statedir ./state --rundir ./run --logdir ./log start""",
        exits="0 it runs   1 it does not   78 error in the configuration   others: as of elastiq (elastiq --help)",
    ),
    "stop": Verb(
        "end elastiq and wait for its end; machines and jobs stay; 0 also if it does not run",
        "commands:stop",
        examples="""\
  elastiqctl stop                   what is under way is taken up by the next start
  elastiqctl pause                  to let it run, and launch and end nothing""",
    ),
    "restart": Verb(
        "check the configuration, then stop and start",
        "commands:restart",
        examples="""\
  elastiqctl restart                with a wrong configuration, what runs goes on
  elastiqctl reload                 enough after most changes""",
    ),
    "reload": Verb(
        "let elastiq read its configuration again; if that is wrong, the old settings stay",
        "acting:reload",
        examples="""\
  elastiqctl reload                 says what is wrong, line by line
  elastiqctl reload && elastiqctl status""",
        exits="0 read   1 failed   3 elastiq does not run   4 no permission, or no answer   78 the file is wrong",
    ),
    "conf": Verb(
        "show versions, places and the keys that are set (no secret)",
        "commands:conf",
        examples="""\
  elastiqctl conf                   which file is read, and what it says
  elastiqctl --config new.conf conf""",
        exits="0 shown   4 no permission to read it   78 error in the configuration",
    ),
    "log": Verb(
        "show the end of the log and follow it (Ctrl-C ends)",
        "commands:log",
        examples="""\
  elastiqctl log -n 100             the last 100 lines, and what comes after
  elastiqctl log -n 1000 --no-follow | grep ' WARNING '""",
        arguments=_log,
        json="each line as an object, as log_format = json writes it, or with its text as `line`",
    ),
    "demo": Verb("run elastiq on a simulated cluster (options: elastiqctl demo --help)", ""),
}
