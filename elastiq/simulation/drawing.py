"""Scenarios drawn from a seed.

Each takes only some of the kinds, and those then often, one upon the other: that finds more than a little of
everything would.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Mapping

from elastiq.idling import AUTO
from elastiq.interfaces import Pool, Resources
from elastiq.settings import Settings
from elastiq.simulation import of_cloud
from elastiq.simulation.chance import Dice
from elastiq.simulation.executor import Latency
from elastiq.simulation.menu import FORGETFUL, HIDE_WORKERS, HOUR_S, LOSE_IDS, MENU, OF_STOPS, SLOW, span
from elastiq.simulation.of_head import with_room
from elastiq.simulation.of_people import people
from elastiq.simulation.of_records import OFTEN, records
from elastiq.simulation.scenario import Happening, Scenario
from elastiq.simulation.terms import stops, with_terms
from elastiq.simulation.world import Image

MB_PER_CPU = 2048.0
FLAVOURS: Mapping[str, Resources] = {
    "small": Resources(cpus=2, memory_mb=4096),
    "medium": Resources(cpus=4, memory_mb=8192),
    "medium2": Resources(cpus=4, memory_mb=8192),
    "large": Resources(cpus=16, memory_mb=65536),
    "fat": Resources(cpus=4, memory_mb=65536),
}
LONGEST_JOB_S = 48 * HOUR_S


@dataclass(frozen=True)
class Profile:
    """A manner of scenarios: how long jobs and mishaps come, how many jobs, how long they are."""

    share: float  # of the mixed ones
    hours: tuple[float, float]
    jobs: tuple[int, int]
    mean_job_s: tuple[float, float]
    mishaps: tuple[int, int]
    default_periods: bool = False


PROFILES: Mapping[str, Profile] = {
    "short": Profile(0.88, (0.4, 2.0), (10, 120), (60.0, 900.0), (3, 16)),
    "calm": Profile(0.04, (0.5, 2.0), (10, 80), (60.0, 900.0), (0, 0)),
    "defaults": Profile(0.03, (0.5, 2.0), (10, 60), (60.0, 900.0), (3, 8), default_periods=True),
    "crowd": Profile(0.04, (0.5, 1.5), (200, 400), (300.0, 1200.0), (3, 12)),
    "long": Profile(0.01, (8.0, 40.0), (20, 100), (1800.0, 20000.0), (8, 25)),
}


def draw(seed: int, profile: str = "mixed") -> Scenario:
    """All of a scenario. ``profile`` is one of `PROFILES`, or "mixed" for any."""
    dice = Dice(seed, profile)
    manner = (
        PROFILES[profile] if profile != "mixed" else _weighted(dice, PROFILES, [p.share for p in PROFILES.values()])
    )
    settings = _with_limits(Dice(seed, profile, "limits"), _settings(dice, manner))
    settings = replace(settings, consolidate=Dice(seed, profile, "consolidate").happens(0.2))
    length = Dice(seed, profile, "length")
    if length.happens(0.2):
        settings = replace(settings, job_length_s=length.one_of((1.0, 20.0, 100.0)))
    settings = with_terms(Dice(seed, profile, "terms"), settings)
    chance = Dice(seed, profile, "auto")
    if chance.happens(0.3):
        settings = replace(settings, idle_for_time_s=AUTO, prefer=chance.one_of(("balanced", "wait", "cost")))
    hours_s = HOUR_S * span(dice, *manner.hours)
    drawn = _jobs(dice, manner, settings, hours_s)
    drawn += _mishaps(dice, manner, settings, hours_s, [at_s for at_s, _kind, _args in drawn])
    drawn.sort(key=lambda one: one[0])
    happenings = tuple(
        Happening(at_s, kind, args, f"{seed}.{number}") for number, (at_s, kind, args) in enumerate(drawn)
    )
    by_people = enumerate(people(Dice(seed, profile, "people"), settings, hours_s))
    happenings += tuple(
        Happening(at_s, kind, args, f"{seed}.person {number}") for number, (at_s, kind, args) in by_people
    )
    of_records = Dice(seed, profile, "records")
    registers = of_records.happens(OFTEN)
    befalls = enumerate(records(of_records, hours_s)) if registers and manner.mishaps[1] else ()
    happenings += tuple(
        Happening(at_s, kind, args, f"{seed}.record {number}") for number, (at_s, kind, args) in befalls
    )
    happenings = tuple(sorted(happenings, key=lambda one: one.at_s))
    return Scenario(
        seed,
        settings,
        FLAVOURS,
        happenings,
        calm_at_s=max(one.ends_s for one in happenings) + 200.0,
        profile=profile,
        image=_image(dice),
        latency=dice.one_of((Latency(), Latency(), Latency(0.2, 3.0), Latency(1.0, 10.0))),
        lease_s=dice.one_of((300.0, 600.0, 1200.0, 2400.0)),
        negotiate_every_s=dice.one_of((20.0, 20.0, 60.0)),
        can_drain=not dice.happens(0.04),
        can_find=not dice.happens(0.1),
        catalogue=Dice(seed, profile, "catalogue").happens(0.4),
        registers=registers,
    )


def _weighted(dice: Dice, choices: Mapping[str, Any], weights: list[float]) -> Any:
    rest = dice.random() * sum(weights)
    for choice, weight in zip(choices.values(), weights):
        rest -= weight
        if rest < 0:
            return choice
    return choice


# --------------------------------------------------------------------------- the configuration


def _settings(dice: Dice, manner: Profile) -> Settings:
    max_vms = int(span(dice, 3, 60 if manner.jobs[1] > 200 else 25))
    pools = _pools(dice, max_vms)
    settings = with_room(
        Settings(
            "sim",
            pools,
            waiting_jobs_time_s=dice.one_of((0.0, 0.0, 40.0, 120.0)),
            waiting_jobs_threshold=dice.whole(0, 1),  # with more, single jobs wait for ever, as they should
            n_jobs_per_vm=dice.whole(1, 6),
            idle_for_time_s=dice.one_of((60.0, 120.0, 300.0, 600.0)),
            estimated_vm_deploy_time_s=dice.one_of((300.0, 420.0, 600.0)),
            drain_timeout_s=dice.one_of((60.0, 120.0, 300.0)),
            lost_after_s=dice.one_of((120.0, 300.0, 900.0)),
            batch_settle_s=dice.one_of((60.0, 120.0, 300.0, 600.0)),
            unused_room_s=dice.one_of((120.0, 300.0)),
            intent_settle_s=dice.one_of((240.0, 400.0, 600.0)),
            static_workers=("static1",),
            min_vms=dice.one_of((0, 0, 0, 0, 1, 2)),
            max_vms=max_vms,
            quota_counts="all" if dice.happens(0.1) else "owned",
        )
    )
    if manner.default_periods:
        return settings
    return replace(
        settings,
        check_queue_every_s=dice.one_of((30.0, 60.0, 90.0)),
        check_vms_every_s=dice.one_of((60.0, 90.0, 120.0)),
        check_vms_in_error_every_s=dice.one_of((60.0, 180.0)),
    )


def _with_limits(dice: Dice, s: Settings) -> Settings:
    """Some have hard stops. Each leaves room for the dearest machine above the minimum: what needs that one would
    else wait for ever."""
    if not dice.happens(0.25):
        return s
    prices = [round(dice.between(0.05, 2.0), 2) for _ in s.pools]
    pools = tuple(
        replace(pool, prices={"*": price, pool.flavours[-1]: round(price * dice.one_of((1.0, 1.5, 4.0)), 2)})
        for pool, price in zip(s.pools, prices)
    )
    each = max(price for pool in pools for price in pool.prices.values())
    limits: dict[str, Any] = {}
    if dice.happens(0.4):
        limits["max_launches_per_hour"] = dice.whole(1, 12)
    if dice.happens(0.5):
        limits["max_cost_per_hour"] = round(each * span(dice, 1.0, 15.0), 2)
    if dice.happens(0.15):
        limits["max_cost_per_day"] = round(each * span(dice, 1.0, 12.0), 2)
    return with_room(replace(s, pools=pools, **limits))


def _pools(dice: Dice, max_vms: int) -> tuple[Pool, ...]:
    """One to three, at one or two sites."""
    count = dice.one_of((1, 1, 2, 2, 3))
    pools = []
    for number, name in enumerate(("ec2", "spot", "big")[:count]):
        flavours = ["medium" if number == 0 else dice.one_of(("small", "medium", "large", "fat"))]
        if dice.happens(0.3):
            flavours.append(dice.one_of(("large", "fat")))
        known = len(set(flavours)) == 1 and dice.happens(0.7)
        pools.append(
            Pool(
                name,
                "aws" if number < 2 or dice.happens(0.5) else "outscale",
                tuple(dict.fromkeys(flavours)),
                dice.one_of((("",), ("subnet-a", "subnet-b"))),
                capacity=FLAVOURS[flavours[0]] if known else Resources(),
                min_vms=1 if dice.happens(0.1) else 0,
                max_vms=dice.whole(1, max_vms) if dice.happens(0.3) else None,
                fingerprint="/".join(flavours),
            )
        )
    return tuple(pools)


def _image(dice: Dice) -> Image:
    boot_s, join_s = dice.one_of((20.0, 40.0, 90.0)), dice.one_of((10.0, 40.0, 90.0))
    return Image(
        boot_s=(boot_s, boot_s * 1.5),
        join_s=(join_s, join_s * 1.5),
        shutdown_s=dice.one_of(((15.0, 40.0), (2.0, 5.0), (60.0, 200.0))),
        publishes_id=dice.happens(0.5),
        odd_names=dice.happens(0.3),
        more_addresses=dice.happens(0.2),
    )


# --------------------------------------------------------------------------- the work

Drawn = tuple[float, str, dict[str, Any]]


def _jobs(dice: Dice, manner: Profile, settings: Settings, hours_s: float) -> list[Drawn]:
    """Bursts, and single ones that come as they come."""
    left = int(span(dice, *manner.jobs))
    mean_s = span(dice, *manner.mean_job_s)
    drawn: list[Drawn] = []
    for _ in range(dice.whole(1, 4)):
        count = max(1, int(left * dice.between(0.1, 0.6)))
        drawn.append((_at(dice, hours_s), "jobs", _batch(dice, settings, count, mean_s)))
        left -= count
    singles = min(left, dice.whole(0, 8))
    at_s = 0.0
    for _ in range(singles):
        at_s += exponential(dice, hours_s / singles)
        drawn.append((round(at_s, 1), "jobs", _batch(dice, settings, max(1, left // singles // 2), mean_s)))
    if stops(settings):  # once machines have had the time to be stopped
        for _ in range(dice.whole(1, 3)):
            at_s = round(hours_s * dice.between(0.6, 1.4), 1)
            drawn.append((at_s, "jobs", _batch(dice, settings, dice.whole(2, 12), mean_s)))
    return drawn


def _at(dice: Dice, hours_s: float) -> float:
    return round(hours_s * dice.random() ** 2, 1)


def _batch(dice: Dice, settings: Settings, count: int, mean_s: float) -> dict[str, Any]:
    cpus = dice.one_of((1.0, 1.0, 1.0, 2.0, 4.0))
    memory_mb = dice.one_of((0.5, 1.0, 1.0, 1.9)) * cpus * MB_PER_CPU
    if cpus == 4.0:
        memory_mb = min(memory_mb, 8192.0)
    lengths = [round(min(LONGEST_JOB_S, 5.0 + exponential(dice, mean_s)), 1) for _ in range(count)]
    args: dict[str, Any] = {"cpus": cpus, "memory_mb": memory_mb, "lengths": lengths}
    rare = dice.random()
    if rare < 0.05:  # larger than any machine
        args.update(dice.one_of(({"cpus": 64.0}, {"memory_mb": 999_999.0})), lengths=lengths[:5])
    elif rare < 0.08:
        args.update(matches=False, lengths=lengths[:5])
    elif rare < 0.10:
        args["not_eligible"] = "needs a licence"
    elif rare < 0.18:
        args["held"] = True
        if dice.happens(0.7):
            args["released_after_s"] = span(dice, 60.0, HOUR_S)
    elif rare < 0.26:
        args["removed_after_s"] = span(dice, 30.0, 1800.0)
    elif rare < 0.32:  # much memory, or many cores: not every flavour will do
        args.update(dice.one_of(({"memory_mb": 40_000.0}, {"cpus": 8.0})))
    if args.get("disk_mb") is None and dice.happens(0.1):
        args["disk_mb"] = 1000.0
    return args


def exponential(dice: Dice, mean: float) -> float:
    return -mean * math.log(1.0 - dice.random())


# --------------------------------------------------------------------------- the mishaps


def _mishaps(dice: Dice, manner: Profile, settings: Settings, hours_s: float, bursts: list[float]) -> list[Drawn]:
    count = dice.whole(*manner.mishaps)
    if not count:
        return []
    menu = {kind: dish for kind, dish in MENU.items() if stops(settings) or kind not in OF_STOPS}
    drawn: list[Drawn] = []
    forgets = [kind for kind, part in zip(FORGETFUL, (0.07, 0.07)) if dice.happens(part)]
    for kind in forgets:
        drawn.append((0.0, kind, {"for_s": round(hours_s + 900.0, 1)}))
    if len(forgets) == len(FORGETFUL):
        menu = {kind: dish for kind, dish in menu.items() if kind not in LOSE_IDS}
    kinds = {"kill": 4} if dice.happens(0.35) and "kill" in menu else {}
    for _ in range(dice.whole(2, 9)):
        name = _weighted(dice, {kind: kind for kind in menu}, [dish.weight for dish in menu.values()])
        kinds[name] = menu[name].at_most
    if HIDE_WORKERS & set(kinds):
        kinds.pop(SLOW, None)
    for _ in range(count):
        left = [kind for kind, times in kinds.items() if times]
        if left:
            kind = dice.one_of(left)
            kinds[kind] -= 1
            args = menu[kind].args(dice, settings)
            if "clock_steps" in kinds and kind == "reconfigured":  # the launches before are known by their wall time
                args["change"].pop("max_launches_per_hour", None)
            if kind in of_cloud.KINDS and len(settings.sites) > 1 and dice.happens(0.6):
                args["site"] = dice.one_of(sorted(settings.sites))
            at_s = hours_s * dice.random() ** 1.5
            if "times" in args and dice.happens(0.6):  # most is launched, and later ended, after a burst
                at_s = max(0.0, dice.one_of(bursts) - span(dice, 5.0, 300.0))
            drawn.append((round(at_s, 1), kind, args))
    return drawn
