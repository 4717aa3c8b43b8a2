"""elastiqctl check: everything that can be looked at before the first launch, and what to do about what is wrong.

Nothing is launched, drained, ended, changed or locked. docs/check.md says what each check means.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
from argparse import Namespace
from collections import Counter
from dataclasses import replace
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence

from elastiq import __version__, config
from elastiq.cli import cluster_checks, machine_checks, once, service_user, systemd
from elastiq.cli.asking import CONFIG, FAILED, UNKNOWN, tell
from elastiq.cli.side_by_side import LEVELS, Finding, found, worst
from elastiq.cli.table import Screen
from elastiq.exits import readable_by
from elastiq.identity import IdentityError
from elastiq.interfaces import Check, Cloud, Looks, Pool, SourceError
from elastiq.paths import Paths
from elastiq.plugin_loader import batch_class, cloud_class
from elastiq.settings import Settings

SCHEMA = 1
CONFIGURATION, MACHINE, CLUSTER = "configuration", "this machine", "cluster"
STYLES = {"ok": "", "warning": "warn", "unknown": "warn", "error": "bad"}
ELSEWHERE = "put it where the user above can read it, as beside /etc/elastiq.conf, or look as root: --user root"
MOST = 10_000  # machines, where a limit is none


def check(paths: Paths, args: Namespace) -> int:
    """Look at everything, print what was found; returns the exit code."""
    logging.getLogger().addHandler(logging.NullHandler())  # what matters is among the checks
    by_root = os.geteuid() == 0 and not args.user  # asked now: it becomes somebody else
    was_there = os.access(paths.config, os.R_OK)
    try:
        as_whom = service_user.become(paths, args.user, _is_for_service(args))
    except LookupError as error:
        as_whom = Check(service_user.SUBJECT, "error", str(error), "mend that, or look as another: --user NAME")
    first = [Finding(MACHINE, as_whom)]
    has_secret = False
    try:
        loaded = config.load(paths.config)
        settings: Optional[Settings] = loaded.settings
        has_secret = any("***" in line for line in loaded.set_keys)
        first += [Finding(CONFIGURATION, one) for one in _configuration(paths, loaded)]
    except config.ConfigError as error:
        settings = None
        lines = readable_by(error.problems) if as_whom.level == "ok" else error.problems
        hidden = by_root and was_there and not os.access(paths.config, os.R_OK)  # root could read it
        remedy = ELSEWHERE if hidden else "correct it"
        first += [Finding(CONFIGURATION, Check("file", "error", line, remedy)) for line in lines]
    machine = machine_checks.looks(paths, settings, args.service, has_secret, by_root)
    sources, failed = _sources(paths, settings, machine)
    rest = found(sources, args.timeout, lambda whom: tell(f"no answer yet from: {', '.join(whom)}"))
    findings = [*first, *failed, *rest]
    if as_whom.level == "warning":  # elastiq is another user's
        findings = [replace(one, check=service_user.doubted(one.check)) if _of_user(one) else one for one in findings]
    made = _report(paths, settings, findings)
    print(json.dumps(made, indent=2) if args.json else _text(made))
    return _exit_code(made, settings is not None, args.strict)


def _is_for_service(args: Namespace) -> bool:
    """Whether it is the service, or would be: root tries another configuration for it, as its user."""
    if args.service is not None or os.geteuid() != 0:
        return args.service is not None
    return systemd.found(Namespace(**{**vars(args), "config": None})) is not None


def _of_user(one: Finding) -> bool:
    """Whether another user may find it otherwise: of the configuration, what cannot be read."""
    return one.source != CONFIGURATION or "cannot be read" in one.check.text


def _configuration(paths: Paths, loaded: config.Loaded) -> Iterable[Check]:
    pools, sites = len(loaded.settings.pools), len(loaded.settings.sites)
    text = f"{paths.config}: {pools} pool{'s' * (pools != 1)} at {sites} site{'s' * (sites != 1)}"
    yield Check("file", "ok", text)
    for line in loaded.warnings:
        yield Check("file", "warning", line, "correct it, or live with it")
    settings = loaded.settings
    off = [f"{key} = no" for key in ("launch", "terminate") if not getattr(settings, key)]
    off += [f"{key} = yes" for key in ("dry_run_boot_vms", "dry_run_shutdown_vms") if getattr(settings, key)]
    if off:
        text = f"{', '.join(off)}: elastiq only says what it would do"
        yield Check("switches", "warning", text, "remove that when you have seen enough")


# --------------------------------------------------------------------------- who is asked


def _sources(paths: Paths, settings: Optional[Settings], machine: Looks) -> tuple[dict[str, Looks], list[Finding]]:
    """Whom to ask, by names, and what cannot even be made."""
    sources = {MACHINE: machine}
    failed: list[Finding] = []
    if settings is None:
        return sources, failed
    try:
        owner = once.owner_of(settings, paths.statedir)
    except (IdentityError, OSError) as error:
        text = f"not looked at: {error}"
        return sources, [Finding(CLUSTER, Check("batch system and sites", "unknown", text, "see above"))]
    clouds: dict[str, Cloud] = {}
    for site, pools in _limited(settings).sites.items():
        try:
            clouds[site] = cloud_class(pools[0].kind).from_config(pools, owner)
            clouds[site].read_only = True
        except SourceError as error:
            failed.append(Finding(site, Check("site", "error", str(error), "correct its section")))
    try:
        batch = batch_class(settings.batch_plugin).from_config(settings.batch_options, owner)
    except SourceError as error:
        failed.append(Finding(settings.batch_plugin, Check("batch system", "error", str(error), "correct its section")))
    else:
        sources[settings.batch_plugin] = batch.checks()
        sources[CLUSTER] = cluster_checks.looks(settings, owner, batch, list(clouds.values()))
    sources.update((site, cloud.checks()) for site, cloud in clouds.items())
    return sources, failed


def _limited(settings: Settings) -> Settings:
    """Each pool with the cluster's limits, where they say something of it: its cloud knows only pools."""
    most, alone = settings.max_vms, len(settings.pools) == 1

    def limited(pool: Pool) -> Pool:
        highest = min(MOST if limit is None else limit for limit in (most, pool.max_vms))
        lowest = max(pool.min_vms, settings.min_vms) if alone else pool.min_vms
        return replace(pool, min_vms=lowest, max_vms=None if highest == MOST else highest)

    return replace(settings, pools=tuple(map(limited, settings.pools)))


# --------------------------------------------------------------------------- what is told


def _report(paths: Paths, settings: Optional[Settings], findings: Sequence[Finding]) -> dict[str, Any]:
    """The object that --json prints (docs/check.md); findings of one source together."""
    order = list(dict.fromkeys(one.source for one in sorted(findings, key=lambda one: one.source != CONFIGURATION)))
    ordered = sorted(findings, key=lambda one: order.index(one.source))
    checks = [one.check for one in findings]
    counts = Counter(check.level for check in checks)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "cluster": settings.cluster_name if settings else None,
        "config": str(paths.config),
        "level": worst(checks),
        "counts": {level: counts[level] for level in LEVELS},
        "checks": [{"source": one.source, **vars(one.check)} for one in ordered],
    }


def _text(made: Mapping[str, Any]) -> str:
    """The same for a person: the checks of each source under its name."""
    screen, rows, styles, source = Screen(), list[list[str]](), list[str](), ""
    for one in _folded(made["checks"]):
        if one["source"] != source:
            source = one["source"]
            rows.append([source, "", ""])
            styles.append("head")
        rows.append([f"  {one['subject']}", one["level"], one["text"]])
        styles.append(STYLES[one["level"]])
        if one["remedy"] and one["level"] != "ok":
            rows.append(["", "", f"-> {one['remedy']}"])
            styles.append("")
    counts = made["counts"]
    said = ", ".join(f"{counts[level]} {_plural(level, counts[level])}" for level in reversed(LEVELS) if counts[level])
    of = f" for cluster {made['cluster']}" if made["cluster"] else ""
    style = {"error": "bad", "ok": "good"}.get(made["level"], "warn")
    head = screen.line(f"elastiq {made['version']}{of}: {said}", style)
    return "\n".join([head, "", *screen.table(("CHECK", "IS", "FOUND"), rows, styles)])


def _folded(checks: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """What is unknown for the same reason, as one: of a source that cannot be asked everything is."""
    for _, same in itertools.groupby(checks, lambda one: (one["source"], one["level"], one["text"], one["remedy"])):
        alike = list(same)
        if len(alike) == 1 or alike[0]["level"] != "unknown":
            yield from alike
        else:
            subjects = ", ".join(one["subject"] for one in alike)
            yield {**alike[0], "subject": f"{len(alike)} checks", "text": f"{subjects}: {alike[0]['text']}"}


def _plural(level: str, count: int) -> str:
    return f"{level}s" if level in ("error", "warning") and count != 1 else level


def _exit_code(made: Mapping[str, Any], has_config: bool, strict: bool) -> int:
    counts = made["counts"]
    if not has_config and counts["error"]:
        return CONFIG
    if counts["error"] or (strict and counts["warning"]):
        return FAILED
    return UNKNOWN if counts["unknown"] else 0
