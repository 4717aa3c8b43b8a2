"""What the commands that look, and those of the service, do; each returns its exit code."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import sys
from argparse import Namespace
from functools import partial
from typing import Any, Callable, Optional

from elastiq import __version__, client, config
from elastiq.cli import as_service, follow, journal, process, systemd, view
from elastiq.cli.asking import CONFIG, FAILED, NOT_RUNNING, ask, checked, load, tell
from elastiq.cli.running import holder
from elastiq.events import RealClock
from elastiq.interfaces import BatchSystem
from elastiq.logfiles import LOG_FILE
from elastiq.paths import Paths
from elastiq.plugin_loader import cloud_class
from elastiq.protocol import Refused

_OTHER_VERSION = "elastiq {} runs, another version than this elastiqctl: restart it"


def start(paths: Paths, args: Namespace) -> int:
    if not startable(paths, args):
        return CONFIG
    first = os.access(paths.statedir.parent, os.X_OK) and not paths.statedir.is_dir()
    code = _run(paths, args, _how(args).start)
    if first and code == 0 and not args.json and sys.stdout.isatty():
        print("its first start here: `elastiqctl check` says whether all that it needs is in order")
    return code


def stop(paths: Paths, args: Namespace) -> int:
    return _run(paths, args, _how(args).stop)


def restart(paths: Paths, args: Namespace) -> int:
    # With a wrong configuration, what runs goes on.
    return _run(paths, args, _how(args).restart) if startable(paths, args) else CONFIG


def _how(args: Namespace) -> Any:
    """What starts and ends it: systemd where it is installed as a service, else `process`."""
    return args.service or process


def startable(paths: Paths, args: Namespace) -> bool:
    """Whether it would start with its configuration, as the user as whom it runs; what is wrong is said."""
    # Whom polkit lets start it need not be one who may read its keys: the service itself tells what is wrong then.
    if args.service and os.geteuid() != 0 and _hidden(paths):
        return True
    return checked(paths) and (not args.service or os.geteuid() != 0 or _readable(paths))


def _readable(paths: Paths) -> bool:
    """Whether the service's user can read it all, as root can; else it says what he cannot."""
    found = as_service.problems(paths.config)
    for line in found:
        tell(line)
    return not found


def _hidden(paths: Paths) -> bool:
    """Whether nothing is wrong but that we may not read what the service reads."""
    try:
        config.load(paths.config)
    except config.ConfigError as error:
        return all("cannot be read" in problem for problem in error.problems)
    return False


def _run(paths: Paths, args: Namespace, act: Callable[[Paths], int]) -> int:
    """Start or end it; with --json what it said is a part of the object."""
    if not args.json:
        return act(paths)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = act(paths)
    pid = args.service.pid() if args.service else holder(paths)
    made = {"exit_code": code, "running": pid is not None, "pid": pid or None, "said": said.getvalue().splitlines()}
    print(json.dumps(made, indent=2))
    return code


def status(paths: Paths, args: Namespace) -> int:
    answer = ask(paths, "status")
    if isinstance(answer, int):
        if answer == NOT_RUNNING and args.service and (why := args.service.why_down()):
            tell(why)
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
    loaded = load(paths)
    if isinstance(loaded, int):
        return loaded
    for line in loaded.warnings:
        tell(f"warning: {line}")
    try:
        answer: dict[str, Any] = client.ask(paths.socket, "status")
    except client.NotRunning:
        answer = {}
    except (client.NoAnswer, Refused, PermissionError) as error:
        tell(f"{error}: planning without what the running elastiq knows")
        answer = {}
    from elastiq.cli import plan as planning  # the daemon's modules, which no other command needs

    return planning.run(loaded.settings, paths, answer.get("status"), answer.get("pid"), args.json)


def explain(paths: Paths, args: Namespace) -> int:
    answer = ask(paths, "status")
    if isinstance(answer, int):
        if answer == NOT_RUNNING:
            tell("`elastiqctl plan` takes a look of its own")
        return answer
    from elastiq.cli import explain as explaining

    try:
        return explaining.run(answer["status"], args.what, args.json, partial(_batch_system, paths))
    except KeyError:  # after an upgrade
        tell(_OTHER_VERSION.format(answer["status"].get("version")))
        return FAILED


def _batch_system(paths: Paths) -> Optional[BatchSystem]:
    """The batch system as it is configured, None after saying what is wrong."""
    from elastiq.cli.once import owner_of
    from elastiq.plugin_loader import batch_class

    loaded = load(paths)
    if isinstance(loaded, int):
        return None
    settings = loaded.settings
    return batch_class(settings.batch_plugin).from_config(settings.batch_options, owner_of(settings, paths.statedir))


def log(paths: Paths, args: Namespace) -> int:
    if args.service and args.service.in_journal and args.service.by_hand() is None:
        return journal.show(systemd.UNIT, args.lines, not args.no_follow, args.json)
    return follow.show(paths.logdir / LOG_FILE, args.lines, not args.no_follow, args.json)


def conf(paths: Paths, args: Namespace) -> int:
    places = {"config": paths.config, "log": paths.logdir, "state": paths.statedir, "run": paths.rundir}
    about = {"python": f"{platform.python_version()} ({sys.executable})", "elastiq": __version__}
    about.update((label, str(path)) for label, path in places.items())
    if not args.json:
        print(*(f"{label:10} {text}" for label, text in about.items()), sep="\n")
    loaded = load(paths)
    if isinstance(loaded, int):
        return loaded
    for line in () if args.json else loaded.set_keys:
        print(f"           {line}")
    sites = {site: cloud_class(pools[0].kind).about(pools[0].options) for site, pools in loaded.settings.sites.items()}
    for site, text in () if args.json else sites.items():
        print(f"site       {site}" + (f", {text}" if text else ""))
    if args.json:
        found = {**about, "keys": list(loaded.set_keys), "warnings": list(loaded.warnings)}
        print(json.dumps({**found, "sites": [{"site": site, "about": text} for site, text in sites.items()]}, indent=2))
    return 0
