"""elastiqctl simulate: a trace played through elastiq with these settings, with several, or in search of better ones.

Nothing outside is touched. Standard output has the answer alone; what is on the way, and what is wrong, is on standard
error.
"""

from __future__ import annotations

import os
from argparse import Namespace

from elastiq.cli import simulated, suggested
from elastiq.cli.asking import CONFIG, FAILED, UNKNOWN, tell
from elastiq.cli.playing import Found, Work, processes, sweep
from elastiq.cli.progress import Progress
from elastiq.exits import DENIED
from elastiq.inifile import ConfigError
from elastiq.paths import Paths
from elastiq.traces.job import TraceError
from elastiq.traces.opening import FORMATS
from elastiq.whatif.overrides import OverrideError
from elastiq.whatif.report import ReportError
from elastiq.whatif.runs import Crew, RunFailed
from elastiq.whatif.source import PartError

USAGE = 2
INTERRUPTED = 130


def simulate(paths: Paths, args: Namespace) -> int:
    """The command."""
    try:
        _check(args)
        with Progress() as progress, Crew(processes(args)) as crew:
            work = Work(paths, args, progress, crew)
            if args.suggest:
                return suggested.suggest(work)
            found = sweep(work) if args.sweep else Found(work, work.play([work.run(over_time=True)]), 0)
            work.tell_speed()
        return simulated.show(found)
    except KeyboardInterrupt:
        tell("interrupted: there is no result")
        return INTERRUPTED
    except ConfigError as error:
        return _config_error(error)
    except (OverrideError, PartError) as error:
        tell(str(error))
        return USAGE
    except (TraceError, RunFailed, ReportError) as error:
        tell(str(error))
        return UNKNOWN if isinstance(error.__context__, PermissionError) else FAILED
    except BrokenPipeError:
        raise
    except OSError as error:
        tell(f"{error.filename or 'output'}: {error.strerror or error}")
        return UNKNOWN if isinstance(error, PermissionError) else FAILED


def _check(args: Namespace) -> None:
    """What the parser cannot know. Raises `OverrideError`."""
    if args.example == bool(args.trace):
        both = "--example needs no TRACE" if args.trace else "name a TRACE, and that before --csv; or try --example"
        raise OverrideError(f"{both}; see elastiqctl simulate --help")
    if args.example and args.format:
        raise OverrideError("--example needs no --format")
    if args.format and args.format not in FORMATS:
        raise OverrideError(
            f"--format {args.format}: is no format of traces, write one of {', '.join(sorted(FORMATS))}"
        )
    for option, given in (("--price", args.price), ("--flavour", args.flavour)):
        names = [name for name, _ in given]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise OverrideError(f"{option}{f' {twice}' if twice else ''}: is given twice, remove one")
    for name in ("max_wait", "max_cost", "wait_as", "quota_up_to", "runs"):
        if getattr(args, name) is not None and not args.suggest:
            raise OverrideError(f"--{name.replace('_', '-')} is of no use without --suggest")
    if args.trace == "-" and (args.suggest or args.sweep):
        raise OverrideError("several runs need a TRACE that can be read again: write standard input into a file")
    if args.suggest and (args.sweep or args.report or args.csv):
        raise OverrideError("--suggest goes with none of --sweep, --report and --csv")
    if args.json and args.csv == "-":
        raise OverrideError("--json and --csv both are for standard output: give --csv a FILE")


def _config_error(error: ConfigError) -> int:
    if os.geteuid() != 0 and all(DENIED in line for line in error.problems):
        where = error.problems[0].partition(DENIED)[0]
        tell(f"{where}no permission to read it: be root, or name another one with --config")
        return UNKNOWN
    for line in error.problems:
        tell(line)
    return CONFIG
