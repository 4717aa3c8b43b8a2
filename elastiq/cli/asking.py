"""What commands share: the configuration, an answer of the running elastiq, a yes of a person, and what is printed."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from typing import Any, Mapping, Optional, Union

from elastiq import client, config
from elastiq.cli.running import holder
from elastiq.exits import DENIED
from elastiq.paths import Paths
from elastiq.protocol import Refused

FAILED = 1
NOT_RUNNING = 3  # as the Linux Standard Base has it for `status`
UNKNOWN = 4
CONFIG = 78


def tell(text: str) -> None:
    """A line on standard error, where it is no part of an answer."""
    print(f"elastiqctl: {text}", file=sys.stderr)


def answer(args: Namespace, text: str, keys: Mapping[str, Any]) -> None:
    """What was done: for a person, or with --json as an object for programs."""
    print(json.dumps(keys, indent=2) if args.json else text)


def load(paths: Paths) -> Union[config.Loaded, int]:
    """The configuration; an exit code after saying what is wrong with it, or that it is not for whom asks."""
    try:
        return config.load(paths.config)
    except config.ConfigError as error:
        if os.geteuid() != 0 and all(DENIED in line for line in error.problems):
            tell(f"{error.problems[0].partition(DENIED)[0]}no permission to read it: be root")
            return UNKNOWN
        for line in error.problems:
            tell(line)
        return CONFIG


def checked(paths: Paths) -> bool:
    """Whether the configuration is right; what is wrong or odd is said."""
    loaded = load(paths)
    if isinstance(loaded, int):
        return False
    for line in loaded.warnings:
        tell(f"warning: {line}")
    return True


def ask(paths: Paths, verb: str, args: Optional[Mapping[str, Any]] = None) -> Any:
    """The daemon's answer, or an exit code after saying why there is none."""
    try:
        return client.ask(paths.socket, verb, args)
    except client.NotRunning as error:
        pid = _holder(paths)
        if pid is None:
            tell(str(error))
            return NOT_RUNNING
        tell(f"elastiq runs (pid {pid}), but does not listen at {paths.socket}")
        return UNKNOWN
    except Refused as error:
        tell(str(error))
        return {"denied": UNKNOWN, "config": CONFIG}.get(error.code, FAILED)
    except client.Silent as error:
        tell(f"{error}: {_hangs(paths)}")
        return UNKNOWN
    except (client.NoAnswer, PermissionError) as error:
        tell(str(error))
        return UNKNOWN


def agreed(args: Namespace, question: str) -> bool:
    """Whether a person says yes, or has said --yes. Without a terminal to ask, it is no; it says so."""
    if args.yes:
        return True
    if not sys.stdin.isatty():
        tell("nothing done: without a terminal to ask, it needs --yes")
        return False
    # With --json, standard output is for the answer alone.
    print(f"{question} [y/N] ", end="", file=sys.stderr if args.json else sys.stdout, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    tell("nothing done")
    return False


def _hangs(paths: Paths) -> str:
    """What it is that does not answer, and what becomes of it."""
    from elastiq.cli import systemd

    pid = _holder(paths)
    if pid and systemd.is_of_unit(pid):
        return f"its process (pid {pid}) hangs; the watchdog of systemd ends it and starts it anew (docs/service.md)"
    return f"its process{f' (pid {pid})' if pid else ''} hangs; elastiqctl restart ends it and starts it anew"


def _holder(paths: Paths) -> Optional[int]:
    try:
        return holder(paths)
    except OSError:  # not ours to look into
        return None
