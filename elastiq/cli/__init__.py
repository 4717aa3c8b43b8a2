"""The console command `elastiqctl`: control the daemon, look at it, try it out."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import Any, Callable, Optional, Sequence

FOR_WHOM = "it is for elastiq's user and group"


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run one command; returns its exit code. No input of a person ends in a traceback."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # closed by the caller
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a letter gets a `?`
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()  # also of a --help, which argparse leaves with SystemExit
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # What is still to be written would fail once more when Python leaves.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):  # `elastiqctl log | head`: the reader has had enough
            return 0
        if isinstance(error, PermissionError) and error.filename:
            print(f"elastiqctl: no permission to use {error.filename}: {FOR_WHOM}", file=sys.stderr)
            return 4
        print(f"elastiqctl: {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
        return 4 if isinstance(error, PermissionError) else 1


def _run(argv: list[str]) -> int:
    from elastiq.cli import systemd
    from elastiq.cli.parser import VERBS, parser_of_all
    from elastiq.paths import Paths

    parser = parser_of_all()
    args, rest = parser.parse_known_args(argv)
    if args.verb == "demo":
        from elastiq.simulation import demo

        return int(demo.main(rest))
    if rest:
        parser.error(f"unknown argument {rest[0]!r}; see elastiqctl {args.verb} --help")
    module, _, function = VERBS[args.verb].run.partition(":")
    run: Callable[[Paths, Any], int] = getattr(import_module(f"elastiq.cli.{module}"), function)
    args.service = systemd.found(args)
    paths = args.service.paths if args.service else Paths.of(args.config, args.logdir, args.statedir, args.rundir)
    return run(paths, args)
