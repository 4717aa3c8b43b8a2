"""Why a node is kept or goes."""

from __future__ import annotations

from typing import Callable, Mapping, Optional

from elastiq.demand import Standing
from elastiq.explain.idle import limit
from elastiq.explain.known import Known, named, waiting
from elastiq.interfaces import Pool
from elastiq.nodes import AT_BOOT, Node, State
from elastiq.stopped import is_stopped


def explained(known: Known, node: Node) -> str:
    """One sentence, by its state and by what the plan has for it."""
    if node.id in known.ends and node.state is not State.TERMINATING:
        return f"{_would(known, 'is ended', 'be ended')}: {known.ends[node.id]}"
    tell = _BY_STATE.get(node.state)
    return tell(known, node) if tell is not None else f"{node.state.value}: {node.reason}"


def _would(known: Known, does: str, do: str) -> str:
    off = known.s.off.get("terminate")
    return f"{off}: would {do}" if off else does


# --------------------------------------------------------------------------- before it has joined


def _booting(known: Known, node: Node) -> str:
    if node.id in known.kept:
        return f"kept: {known.kept[node.id]}"
    if node.state in AT_BOOT:
        by_s = known.s.settings.estimated_vm_deploy_time_s_of(node.pool) - node.boot_s
        text = f"booting: joins until {known.when(by_s)} or is ended"
        text += f"; that time stands still: {known.s.no_end}" if known.s.no_end else ""
    else:
        text = f"asked for at {known.at(node.created_at)}, the cloud does not show it yet"
    return text + (_for_whom(known, node, ", for ") or _for_no_job(node)) + _then_goes(known, node)


def _for_no_job(node: Node) -> str:
    """Why it was launched, where that was for a minimum or as a spare."""
    reasons = node.reason.rpartition(": ")[2].split("; ")  # of "launched as i-1: ..."
    why = [one for one in reasons if one.startswith("min_")]
    return f", launched for {' and '.join(why)}" if why and not node.groups else ""


def _for_whom(known: Known, node: Node, before: str) -> str:
    groups = sorted(known.reserved.get(node.id, ()), key=lambda one: -one[0])
    return before + named([waiting(count, group) for count, group in groups]) if groups else ""


def _then_goes(known: Known, node: Node) -> str:
    return f"; goes then: {known.leaving[node.id]}" if node.id in known.leaving else ""


# --------------------------------------------------------------------------- in service


def _idle(known: Known, node: Node) -> str:
    s = known.s
    if node.id in known.drains:
        return f"{_would(known, 'goes', 'go')}: {known.drains[node.id]}"
    idle_for_s, pool = s.idle_for_s(node.pool), s.settings.pool(node.pool)
    is_to_go = known.leaving.get(node.id, "")
    if not is_to_go and node.id in known.reserved:
        return "kept: reserved" + _for_whom(known, node, " for ")
    trying = {key for key in node.groups if s.trials.standing(key) is Standing.TRYING}
    if not is_to_go and any(v.group.key in trying for v in known.plan.verdicts):
        return "kept: launched for waiting jobs of which none has started yet"
    if node.pool and pool is None:
        is_to_go = f"pool {node.pool} is no longer configured"
    if is_to_go:
        return f"is to go ({is_to_go}), kept for now: {_obstacle(known, node, pool) or 'the next plan drains it'}"
    if node.idle_s < idle_for_s:
        least = _minimum(known, node, pool)
        if not least and pool is not None and known.unused[pool.name] <= pool.terms.min_idle_vms:
            least = _spare(known, pool)
        may = f", then kept: {least}" if least else f": may go at {known.when(idle_for_s - node.idle_s)}"
        return f"idle for {node.idle_s:.0f} s of {limit(s, node.pool)}{may}"
    why = _obstacle(known, node, pool) or s.no_drain or _spare(known, pool)
    return f"kept: {why}" if why else f"idle for {node.idle_s:.0f} s: may go now"


def _obstacle(known: Known, node: Node, pool: Optional[Pool]) -> str:
    """What keeps any machine, also one that is to go."""
    s = known.s
    if s.no_end:
        return f"nothing is ended now, {s.no_end}"
    if node.site not in s.sites:
        return f"the instances of site {node.site} are not known now"
    if node.acting:
        return "something is being asked for it"
    if not node.may_act(s.now):
        return f"{node.reason}: again at {known.when(node.retry_at - s.now)}"
    return _minimum(known, node, pool)


def _minimum(known: Known, node: Node, pool: Optional[Pool]) -> str:
    s, leaves = known.s, node.id in known.leaving
    if known.stay(None, leaves) <= s.settings.min_vms:
        return f"min_vms {s.settings.min_vms}"
    if pool is not None and pool.name not in s.drained and known.stay(pool.name, leaves) <= pool.min_vms:
        return f"min_vms {pool.min_vms} of pool {pool.name}"
    return ""


def _spare(known: Known, pool: Optional[Pool]) -> str:
    """What keeps an idle machine that nobody needs, and whose time is up: it is a hot spare."""
    least = pool.terms.min_idle_vms if pool is not None else 0
    return f"min_idle_vms {least} of pool {pool.name}" if pool is not None and least else ""


def _busy(known: Known, node: Node) -> str:
    if node.id in known.drains:
        return f"{_would(known, 'goes', 'go')} once its jobs have ended: {known.drains[node.id]}"
    goes = node.condemned or known.leaving.get(node.id, "")
    if node.runs_something:
        return f"busy: {node.reason}" + (f"; goes once they have ended: {goes}" if goes else "")
    return f"kept: {node.reason}"


# --------------------------------------------------------------------------- on its way out


def _draining(known: Known, node: Node) -> str:
    s, since = known.s, f"draining since {known.at(node.since)} ({node.reason})"
    if node.acting:
        return f"{since}, waits for the batch system's answer"
    if node.act_ended is None or s.workers_began < node.act_ended:
        return f"{since}, waits for a read of the workers"
    if node.runs_something:
        return f"{since}, ended once its jobs have ended ({node.jobs})"
    if node.for_good:
        return f"{since}, ended once a read shows it out of service"
    until = known.when(node.act_ended + s.settings.drain_timeout_s - s.now)
    return f"{since}, ended once a read shows it out of service, returned at {until}"


def _stopped(known: Known, node: Node) -> str:
    why = node.reason.rpartition(": stopped")[0] or node.reason
    if not is_stopped(node):
        return f"its stop was asked for at {known.at(node.since)} ({why}): costs until the cloud confirms it"
    if not node.may_act(known.s.now) or node.worker is not None:
        return f"stopped ({why}): what is known of it is being looked at again"
    return f"stopped since {known.at(node.since)} ({why}): started again before a new one like it is launched"


def _terminating(known: Known, node: Node) -> str:
    return f"its end was asked for at {known.at(node.since)} ({node.reason}): counts until the cloud confirms it"


def _lost(known: Known, node: Node) -> str:
    after_s, no_end = known.s.settings.lost_after_s, known.s.no_end
    text = f"lost: its worker has been missing for {node.lost_s:.0f} s of lost_after_s {after_s:g}"
    if node.lost_s < after_s and not no_end:
        return f"{text}, ended at {known.when(after_s - node.lost_s)} if no job is recorded there"
    return f"{text}: kept, {no_end or node.reason}"


def _failed(known: Known, node: Node) -> str:
    s = known.s
    waits = s.no_end or ("" if node.may_act(s.now) else f"asked again at {known.when(node.retry_at - s.now)}")
    return f"failed: {node.reason}; ended once it is known that it runs nothing" + (f" ({waits})" if waits else "")


_BY_STATE: Mapping[State, Callable[[Known, Node], str]] = {
    State.REQUESTED: _booting,
    State.PENDING: _booting,
    State.BOOTING: _booting,
    State.IDLE: _idle,
    State.BUSY: _busy,
    State.DRAINING: _draining,
    State.STOPPED: _stopped,
    State.TERMINATING: _terminating,
    State.LOST: _lost,
    State.FAILED: _failed,
}
