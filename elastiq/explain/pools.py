"""What a pool is, what holds it back, and what it can run."""

from __future__ import annotations

from typing import Iterator

from elastiq.broker import capacity
from elastiq.explain.idle import limit
from elastiq.explain.known import Known, named, size, waiting
from elastiq.idling import AUTO
from elastiq.interfaces import JobGroup, Pool
from elastiq.nodes import JOINED, TO_COME, State
from elastiq.situation import NOT_ASKED
from elastiq.wording import counted


def explained(known: Known, pool: Pool) -> list[str]:
    return [*_limits(known, pool), *_held_back(known, pool), *_runs(known, pool)]


def _limits(known: Known, pool: Pool) -> Iterator[str]:
    s, count = known.s, known.s.registry.count
    most = "no limit of its own" if pool.max_vms is None else f"at most {pool.max_vms}"
    stopped = count(pool.name, {State.STOPPED})
    states = f"{count(pool.name, JOINED)} joined, {count(pool.name, TO_COME)} to come"
    states += f", {stopped} stopped" if stopped else ""
    yield f"{counted(count(pool.name), 'machine')} ({states}); {most}, min_vms {pool.min_vms}"
    for flavour in pool.flavours:
        sizes = [size(what, has) for what, has in vars(capacity(s, pool, flavour)).items() if has is not None]
        shape = ", ".join(sizes) or "its size is not known until one has joined"
        yield f"flavour {flavour or 'of the cloud'}: {shape}; {_prices(pool, flavour)}"
    if s.settings.idle_for_time_s_of(pool.name) == AUTO:
        yield f"idle machines are kept for {limit(s, pool.name)}"
    own = {key: value for key, value in vars(pool.terms).items() if value not in (None, 0, 0.0, (), "terminate", AUTO)}
    if own:
        yield "its own terms: " + ", ".join(f"{key} {_plain(value)}" for key, value in own.items())


def _prices(pool: Pool, flavour: str) -> str:
    prices = {market: pool.price(flavour, market) for market in pool.markets}
    told = [
        ("no price" if price is None else f"{price:g} an hour") + (f" ({market})" if market else "")
        for market, price in prices.items()
    ]
    return ", ".join(told)


def _held_back(known: Known, pool: Pool) -> Iterator[str]:
    s = known.s
    if pool.name in s.drained:
        yield "it is being drained: nothing is launched there, and what is idle there ends"
    if pool.site not in s.sites:
        yield f"the instances of site {pool.site} are not known now: nothing is launched or ended there"
    scopes = (f"site {pool.site}", f"pool {pool.name}", *(f"offer {offer}" for offer in pool.offers()))
    yield from (text for scope, text in known.blocks() if scope in scopes)
    breaker = s.health.breaker(pool.name)
    if breaker:
        yield breaker


def _runs(known: Known, pool: Pool) -> Iterator[str]:
    runs: list[str] = []
    misfits: list[str] = []
    for v in known.plan.verdicts:
        if not v.group.not_eligible:
            answers = [_fits(known, v.group, pool, flavour) for flavour in pool.flavours]
            jobs = waiting(v.group.waiting, v.group)
            if "" in answers:
                runs.append(jobs)
            elif NOT_ASKED not in answers:
                misfits.append(jobs)
    if runs:
        yield f"of the waiting jobs it can run {named(runs)}"
    if misfits:
        yield f"it cannot run {named(misfits)}"


def _fits(known: Known, group: JobGroup, pool: Pool, flavour: str) -> str:
    """Why a job of the group would not run on an empty machine; empty if it would."""
    if group.pools and pool.name.lower() not in group.pools:
        return "asks for other pools"
    fits, why = known.s.fits(group, pool, flavour, capacity(known.s, pool, flavour))
    return "" if fits else why or "too small"


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return "; ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
