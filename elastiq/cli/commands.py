"""What each command of elastiqctl does; each returns its exit code."""

from __future__ import annotations

import json
import platform
import sys
from argparse import Namespace
from functools import partial
from typing import Any, Optional

from elastiq import __version__, client, config
from elastiq.cli import follow, process, view
from elastiq.cli.running import holder
from elastiq.control import Refused
from elastiq.events import RealClock
from elastiq.interfaces import BatchSystem
from elastiq.logfiles import LOG_FILE
from elastiq.paths import Paths
from elastiq.plugin_loader import cloud_class

FAILED = 1
NOT_RUNNING = 3  # as the Linux Standard Base has it for `status`
UNKNOWN = 4
CONFIG = 78
_OTHER_VERSION = "elastiq {} runs, another version than this elastiqctl: restart it"


def start(paths: Paths, args: Namespace) -> int:
    return process.start(paths) if _checked(paths) else CONFIG


def stop(paths: Paths, args: Namespace) -> int:
    return process.stop(paths)


def restart(paths: Paths, args: Namespace) -> int:
    if not _checked(paths):
        return CONFIG  # and what runs goes on
    return process.restart(paths)


def status(paths: Paths, args: Namespace) -> int:
    answer = _ask(paths, "status")
    if isinstance(answer, int):
        return answer
    found = answer["status"]
    if args.json:
        print(json.dumps({**found, "pid": answer["pid"]}, indent=2))
    else:
        try:
            text = view.text(found, answer["pid"], RealClock.monotonic() - found["monotonic_at"])
        except (KeyError, TypeError):  # after an upgrade
            text = _OTHER_VERSION.format(found.get("version"))
        print(text)
    return 0


def plan(paths: Paths, args: Namespace) -> int:
    loaded = _load(paths)
    if loaded is None:
        return CONFIG
    for line in loaded.warnings:
        print(f"elastiqctl: warning: {line}", file=sys.stderr)
    try:
        answer: dict[str, Any] = client.ask(paths.socket, "status")
    except client.NotRunning:
        answer = {}
    except (client.NoAnswer, Refused, PermissionError) as error:
        print(f"elastiqctl: {error}: planning without what the running elastiq knows", file=sys.stderr)
        answer = {}
    from elastiq.cli import plan as planning  # the daemon's modules, which no other command needs

    return planning.run(loaded.settings, paths, answer.get("status"), answer.get("pid"), args.json)


def explain(paths: Paths, args: Namespace) -> int:
    answer = _ask(paths, "status")
    if isinstance(answer, int):
        if answer == NOT_RUNNING:
            print("elastiqctl: `elastiqctl plan` takes a look of its own", file=sys.stderr)
        return answer
    from elastiq.cli import explain as explaining

    try:
        return explaining.run(answer["status"], args.what, args.json, partial(_batch_system, paths))
    except KeyError:  # after an upgrade
        print(f"elastiqctl: {_OTHER_VERSION.format(answer['status'].get('version'))}", file=sys.stderr)
        return FAILED


def _batch_system(paths: Paths) -> Optional[BatchSystem]:
    """The batch system as it is configured, None after saying what is wrong."""
    from elastiq.cli.once import owner_of
    from elastiq.plugin_loader import batch_class

    loaded = _load(paths)
    if loaded is None:
        return None
    settings = loaded.settings
    return batch_class(settings.batch_plugin).from_config(settings.batch_options, owner_of(settings, paths.statedir))


def log(paths: Paths, args: Namespace) -> int:
    return follow.show(paths.logdir / LOG_FILE, args.lines, not args.no_follow)


def conf(paths: Paths, args: Namespace) -> int:
    print(f"python     {platform.python_version()} ({sys.executable})")
    print(f"elastiq    {__version__}")
    for label, path in (
        ("config", paths.config), ("log", paths.logdir), ("state", paths.statedir), ("run", paths.rundir)
    ):  # fmt: skip
        print(f"{label:10} {path}")
    loaded = _load(paths)
    if loaded is None:
        return CONFIG
    for line in loaded.set_keys:
        print(f"           {line}")
    for site, pools in loaded.settings.sites.items():
        about = cloud_class(pools[0].kind).about(pools[0].options)
        print(f"site       {site}" + (f", {about}" if about else ""))
    return 0


def adopt(paths: Paths, args: Namespace) -> int:
    """List what would be taken over, ask, and take it over."""
    answer = _ask(paths, "adopt")
    if isinstance(answer, int):
        return answer
    found: list[str] = answer["result"]["instances"]
    if not found:
        print("no instance of this cluster belongs to another head node: nothing to adopt")
        return 0
    one = len(found) == 1
    which = "1 instance of this cluster belongs" if one else f"{len(found)} instances of this cluster belong"
    print(f"{which} to another head node:")
    for instance in found:
        print(f"  {instance}")
    if not args.yes:
        if not sys.stdin.isatty():
            print("elastiqctl: nothing done: without a terminal to ask, it needs --yes", file=sys.stderr)
            return FAILED
        if not _yes("Is that head node gone for good, and shall they all be adopted? [y/N] "):
            print("nothing done")
            return FAILED
    answer = _ask(paths, "adopt", {"ids": found})  # what was shown, and nothing that came since
    if isinstance(answer, int):
        return answer
    print("adoption has begun: `elastiqctl status` shows them as nodes when the cloud has confirmed it")
    return 0


def drain_pool(paths: Paths, args: Namespace) -> int:
    after = f"nothing is launched there, and what is idle there ends (undone by: elastiqctl undrain-pool {args.pool})"
    return _serve(paths, args, f"pool {args.pool} is out of service: {after}")


def undrain_pool(paths: Paths, args: Namespace) -> int:
    return _serve(paths, args, f"pool {args.pool} is in service")


def _serve(paths: Paths, args: Namespace, done: str) -> int:
    answer = _ask(paths, args.verb, {"pool": args.pool})
    if isinstance(answer, int):
        return answer
    print(done)
    return 0


def _yes(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _load(paths: Paths) -> Optional[config.Loaded]:
    """The configuration, None after saying what is wrong with it."""
    try:
        return config.load(paths.config)
    except config.ConfigError as error:
        for line in error.problems:
            print(f"elastiqctl: {line}", file=sys.stderr)
        return None


def _checked(paths: Paths) -> bool:
    loaded = _load(paths)
    for line in loaded.warnings if loaded else ():
        print(f"elastiqctl: warning: {line}", file=sys.stderr)
    return loaded is not None


def _ask(paths: Paths, verb: str, args: Optional[dict[str, Any]] = None) -> Any:
    """The daemon's answer, or an exit code after saying why there is none."""
    try:
        return client.ask(paths.socket, verb, args)
    except client.NotRunning as error:
        pid = _holder(paths)
        if pid is None:
            print(f"elastiqctl: {error}", file=sys.stderr)
            return NOT_RUNNING
        print(f"elastiqctl: elastiq runs (pid {pid}), but does not listen at {paths.socket}", file=sys.stderr)
        return UNKNOWN
    except Refused as error:
        print(f"elastiqctl: {error}", file=sys.stderr)
        return UNKNOWN if error.code == "denied" else FAILED
    except (client.NoAnswer, PermissionError) as error:
        print(f"elastiqctl: {error}", file=sys.stderr)
        return UNKNOWN


def _holder(paths: Paths) -> Optional[int]:
    try:
        return holder(paths)
    except OSError:  # not ours to look into
        return None
