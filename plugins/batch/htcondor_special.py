"""What few jobs ask for: certain pools, several machines at once, a share of what is limited. Pure.

Facts, from HTCondor's manual and a 23.9 pool: every job has MinHosts and MaxHosts; ``machine_count`` of the
parallel universe sets both, and the dedicated scheduler starts the job on MaxHosts slots. The negotiator
leaves with a job why it found no match (LastRejMatchReason): "concurrency limit NAME reached " for a limit. It
does so for the first job of several alike only.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Iterable

from elastiq.interfaces import JobGroup
from elastiq.plugins.batch.htcondor_ads import Row, word
from elastiq.plugins.batch.htcondor_jobs import WAITING, digest

PARALLEL = 11


def special(group: JobGroup, row: Row) -> JobGroup:
    """The group with the pools that its jobs may go to, how many machines each needs, and a key of its own for
    these, the concurrency limits and the accounting group: a quota of one is no reason against the others."""
    pools, why_not = _pools(row.get("elastiqpool"))
    nodes = row.get("maxhosts", 1) if row.get("jobuniverse") == PARALLEL else 1
    if isinstance(nodes, bool) or not isinstance(nodes, int) or nodes < 1:
        nodes, why_not = 1, f"its MaxHosts ({_shown(nodes)}) is no number of machines (machine_count)"
    limits = sorted(_limits(row))
    more = (pools, nodes, limits, word(row, "acctgroup"), why_not)
    if more == ((), 1, [], "", ""):
        return group
    why_not = group.not_eligible or why_not
    account = row.get("acctgroup")  # START may ask for it
    ad = (*group.ad, f"acctgroup = {json.dumps(account)}") if isinstance(account, str) else group.ad
    key = digest((group.key, *more))
    return replace(group, key=key, pools=pools, nodes=nodes, not_eligible=why_not, ad=ad)


def _pools(value: Any) -> tuple[tuple[str, ...], str]:
    if value is None:
        return (), ""
    if not isinstance(value, str) or value.startswith("/Expr("):
        return (), f'its ElastiqPool ({_shown(value)}) is no text in quotes: say My.ElastiqPool = "NAME, NAME"'
    return tuple(sorted(set(re.split(r"[\s,]+", value.lower())) - {""})), ""


def _shown(value: Any) -> str:
    text = str(value)
    return text[6:-2][:40] if text.startswith("/Expr(") else text[:40]


def hold_back(groups: dict[str, JobGroup], limited: Iterable[tuple[str, Row]]) -> None:
    """Mark the groups of which all waiting jobs that the negotiator rejected were rejected for a concurrency
    limit of which a running job holds a part: more machines would not help them. Where none runs, what it said
    may be old: without a machine it considers no job, and says nothing new. ``limited``: the rows of jobs that
    have a limit, each with the key of its group."""
    said: dict[str, set[str]] = {}
    in_use: set[str] = set()
    for key, row in limited:
        if row.get("jobstatus") in WAITING:
            said.setdefault(key, set()).add(" ".join(word(row, "lastrejmatchreason").split()))
        else:
            in_use.update(name.partition(":")[0] for name in _limits(row))
    for key, reasons in said.items():
        told = sorted(reasons - {""})
        if told and not groups[key].not_eligible and all(_names(reason) & in_use for reason in told):
            groups[key] = replace(groups[key], not_eligible=f"the negotiator says: {told[0]}")


def _names(reason: str) -> set[str]:
    """The limits in "concurrency limit a, b reached"; none in another reason."""
    found = re.fullmatch("concurrency limit (.+) reached", reason)
    return set(found[1].split(", ")) if found else set()


def _limits(row: Row) -> set[str]:
    return {re.sub(r"\s", "", limit) for limit in word(row, "concurrencylimits").split(",")} - {""}
