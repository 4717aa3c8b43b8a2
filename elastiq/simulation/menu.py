"""How often each kind of happening comes, and how its arguments are drawn.

The limits keep to what the design promises: an effect, or a machine, that shows itself only after
``intent_settle_s``, or a list that lacks live workers for longer than ``lost_after_s``, or new ones until their
boot deadline, deceives anyone.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

from elastiq.settings import Settings
from elastiq.simulation.chance import Dice
from elastiq.simulation.kinds import BATCH, CLOUD, READS

Args = dict[str, Any]
HOUR_S = 3600.0
SLOWEST_BOOT_S = 290.0  # of an image that is drawn, with the join


class Dish(NamedTuple):
    """One kind: its weight among the others, its arguments, and how often it may come at most."""

    weight: float
    args: Callable[[Dice, Settings], Args]
    at_most: int = 9


def span(dice: Dice, low: float, high: float) -> float:
    """Seconds; short ones as often as long ones."""
    return round(float(low * (high / low) ** dice.random()), 1)


def _window(low: float = 30.0, high: float = 1200.0, **more: Callable[[Dice, Settings], Any]) -> Callable[..., Args]:
    def args(dice: Dice, s: Settings) -> Args:
        drawn: Args = {"for_s": span(dice, low, high)}
        share = dice.one_of((1.0, 1.0, 0.7, 0.4, 0.15))
        if share < 1.0:
            drawn["share"] = share
        drawn.update((name, draw(dice, s)) for name, draw in more.items())
        return drawn

    return args


def _next(**more: Callable[[Dice, Settings], Any]) -> Callable[..., Args]:
    """The next few calls of a kind that is rare, or all of a while."""
    inner = _window(600.0, 3000.0, **more)

    def args(dice: Dice, s: Settings) -> Args:
        drawn = inner(dice, s)
        if dice.happens(0.7):
            drawn["times"] = dice.whole(1, 6)
            drawn.pop("share", None)
        return drawn

    return args


def _calls(names: frozenset[str], low: float = 30.0, high: float = 1200.0, **more: Any) -> Callable[..., Args]:
    """A window for all of these calls, or for one."""
    inner = _window(low, high, **more)

    def args(dice: Dice, s: Settings) -> Args:
        drawn = inner(dice, s)
        if dice.happens(0.5):
            drawn["calls"] = [dice.one_of(sorted(names - {"adopt", "forget", "undrain"}))]  # those come seldom
        return drawn

    return args


def _one(low: float = 60.0, high: float = 0.7 * HOUR_S, **more: Any) -> Callable[..., Args]:
    """Something that befalls one worker or machine for a while."""

    def args(dice: Dice, s: Settings) -> Args:
        drawn = {"which": round(dice.random(), 3), "for_s": span(dice, low, high)}
        drawn.update((name, draw(dice, s)) for name, draw in more.items())
        return drawn

    return args


def _named(**more: Any) -> Callable[..., Args]:
    """Something that befalls one worker or machine at once."""

    def args(dice: Dice, s: Settings) -> Args:
        return {"which": round(dice.random(), 3), **{name: draw(dice, s) for name, draw in more.items()}}

    return args


def _no_share(low: float, high: float, **more: Any) -> Callable[..., Args]:
    inner = _one(low, high, **more)

    def args(dice: Dice, s: Settings) -> Args:
        drawn = inner(dice, s)
        del drawn["which"]
        return drawn

    return args


def _seconds(low: float, high: float) -> Callable[..., float]:
    def draw(dice: Dice, s: Settings) -> float:
        return span(dice, low, high)

    return draw


def _within_settle(part: float) -> Callable[..., float]:
    return lambda dice, s: span(dice, 10.0, part * s.intent_settle_s)


def _any(*choices: Any) -> Callable[..., Any]:
    return lambda dice, s: dice.one_of(choices)


def _whole(low: int, high: int) -> Callable[..., int]:
    return lambda dice, s: dice.whole(low, high)


def _flavour(dice: Dice, s: Settings) -> str:
    return dice.one_of(sorted({flavour for pool in s.pools for flavour in pool.flavours}))


def _empty(dice: Dice, s: Settings) -> Args:
    drawn = {**_window()(dice, s), "for_s": span(dice, 10.0, min(s.batch_settle_s + 0.5 * s.lost_after_s, _unseen(s)))}
    if dice.happens(0.5):
        drawn["calls"] = [dice.one_of(("jobs", "workers"))]
    return drawn


def _missing(dice: Dice, s: Settings) -> Args:
    return {**_window()(dice, s), "for_s": span(dice, 10.0, min(0.6 * s.lost_after_s, _unseen(s)))}


def _unseen(s: Settings) -> float:
    """For how long a machine that has joined may not be shown: by then the slowest one's boot deadline is near."""
    return max(20.0, s.estimated_vm_deploy_time_s - SLOWEST_BOOT_S)


# The first letters of `Stage.operations`; an empty text is any of them.
KILLED_AT = (
    *("", "store", "store write begins", "launch", "launch begins", "launch done", "drain", "undrain"),
    *("terminate", "terminate begins", "stop", "start", "find", "workers", "instances", "jobs_recorded_on"),
)


def _kill(dice: Dice, s: Settings) -> Args:
    at = dice.one_of(KILLED_AT)
    drawn = {
        "at": at,
        "number": dice.whole(1, 4) if at else dice.whole(1, 60),
        "for_s": span(dice, 30.0, 0.5 * HOUR_S),
        "down_s": span(dice, 1.0, 0.5 * HOUR_S),
    }
    if dice.happens(0.3):
        drawn["lost"] = True
    return drawn


def _change(dice: Dice, s: Settings) -> Args:
    """A person edits the configuration."""
    pool = dice.one_of(s.pools)
    siblings = [one for one in s.pools if one.site == pool.site]
    most = s.max_vms or 10
    changes: list[Args] = [
        {"max_vms": max(1, int(most * dice.one_of((0.3, 0.5, 1.5))))},
        {"min_vms": dice.whole(0, min(3, most))},
        {"pools": {pool.name: {"flavours": ["medium2"]}}},
        {"pools": {pool.name: {"max_vms": dice.whole(1, most)}}},
        {"idle_for_time_s": dice.one_of((60.0, 300.0, 900.0))},
        {"check_vms_every_s": dice.one_of((30.0, 90.0)), "check_queue_every_s": dice.one_of((15.0, 60.0))},
        {"quota_counts": dice.one_of(("owned", "all"))},
        {"waiting_jobs_time_s": dice.one_of((0.0, 60.0)), "waiting_jobs_threshold": dice.whole(0, 1)},
        {"max_launches_per_hour": dice.whole(2, 8)},
    ]
    if s.consolidate:
        changes += [{"consolidate": False}]
    if pool.build:
        changes += [{"pools": {pool.name: {"build": "image 2"}}}]
        other = "terminate" if pool.terms.idle_action == "stop" else "stop"
        changes += [{"pools": {pool.name: {"terms": {"idle_action": other}}}}] if pool.markets == ("",) else []
    if s.max_cost_per_hour is not None:
        changes += [{"max_cost_per_hour": round(s.max_cost_per_hour * dice.one_of((0.3, 1.5)), 2)}]
    if len(siblings) > 1:
        changes += [{"remove_pool": pool.name}] * 3
    drawn: Args = {"change": dice.one_of(changes)}
    if dice.happens(0.5):
        drawn["down_s"] = span(dice, 1.0, 600.0)
    return drawn


HOLE = _any("ends", "loses")
JOB_S = _seconds(30.0, 1800.0)

MENU: Mapping[str, Dish] = {
    # workers and machines
    "worker_vanishes": Dish(2, _one(30.0, HOUR_S)),
    "worker_crashes": Dish(
        2, lambda dice, s: {"which": round(dice.random(), 3), "back_s": dice.one_of((0, 60.0, 300.0, 1500.0))}
    ),
    "collector_restarts": Dish(2, _no_share(60.0, 600.0), 3),
    "stale_ads": Dish(1, _no_share(600.0, HOUR_S, stay_s=_seconds(60.0, HOUR_S))),
    "admin_drains": Dish(1, _one()),
    "admin_undrains": Dish(1, lambda dice, s: {}),
    "static_worker": Dish(
        1, _no_share(300.0, HOUR_S, name=_any("static1", "desk7"), address=_any("10.8.0.1"), cpus=_any(2.0, 8.0)), 1
    ),
    "interruption": Dish(2, lambda dice, s: {"which": round(dice.random(), 3), "count": dice.whole(1, 4)}),
    "notice": Dish(2, _named(count=_whole(1, 3), ahead_s=_any(30.0, 120.0))),
    "turned_by_hand": Dish(2, _named(how=_any("start", "terminate"))),
    "machine_falls": Dish(
        2, lambda dice, s: {"which": round(dice.random(), 3), "state": dice.one_of(("stopped", "error", "stopping"))}
    ),
    "machine_impaired": Dish(1, _one()),
    "black_hole": Dish(1, _one(300.0, HOUR_S, how=HOLE)),
    "foreign_machines": Dish(
        2,
        _no_share(
            600.0,
            HOUR_S,
            count=_whole(1, 3),
            whom=_any("nobody", "another head", "another cluster", "head node"),
            joins=_any(True, False),
        ),
        1,
    ),
    "never_boots": Dish(1, _next()),
    "never_joins": Dish(2, _next()),
    "no_instance_id": Dish(1, _next()),
    "publishes_id": Dish(1, _next()),
    "instance_store": Dish(1, _next()),
    "odd_names": Dish(1, _next()),
    "slow_boots": Dish(1, _next(times=_any(2.0, 5.0, 15.0))),
    "boots_to_error": Dish(1, _next()),
    "born_holes": Dish(1, _next(how=HOLE)),
    "more_addresses": Dish(1, _next()),
    "addresses_recycled": Dish(2, _no_share(600.0, 1.5 * HOUR_S)),
    "flavour_limit": Dish(1, _no_share(300.0, HOUR_S, flavour=_flavour, limit=_whole(0, 3)), 1),
    "account_limit": Dish(1, _no_share(300.0, HOUR_S, limit=_whole(1, 6)), 1),
    "ended_linger": Dish(1, _no_share(600.0, 1.5 * HOUR_S, linger_s=_any(0.0, 60.0, 7200.0)), 1),
    "cloud_clock": Dish(1, lambda dice, s: {"skew_s": round(dice.between(-250.0, 250.0), 1)}, 1),
    # the batch system
    "batch_fails": Dish(2, _calls(READS)),
    "batch_hangs": Dish(1, _calls(READS)),
    "batch_late": Dish(1, _calls(BATCH, late_s=_seconds(5.0, 120.0))),
    "batch_partial": Dish(1, _window()),
    "batch_empty": Dish(2, _empty, 1),
    "workers_missing": Dish(1, _missing, 1),
    "drain_refused": Dish(1, _next()),
    "drain_fails": Dish(1, _next()),
    "drain_hangs": Dish(1, _next()),
    "drain_not_done": Dish(1, _next()),
    "drain_unheard": Dish(1, _next()),
    "drain_answered_too_late": Dish(1, _next()),
    "drain_late": Dish(1, _next(late_s=lambda dice, s: span(dice, 5.0, 0.6 * s.drain_timeout_s))),
    "undrain_fails": Dish(1, _next()),
    "undrain_unheard": Dish(1, _next()),
    "slips_in": Dish(2, _window(300.0, HOUR_S, length_s=JOB_S)),
    "starts_between": Dish(1, _window(60.0, 600.0, length_s=JOB_S)),
    # the cloud
    "cloud_throttles": Dish(1, _calls(CLOUD)),
    "cloud_down": Dish(2, _calls(CLOUD)),
    "cloud_hangs": Dish(1, _calls(CLOUD)),
    "cloud_late": Dish(1, _calls(CLOUD, late_s=_seconds(5.0, 110.0))),
    "cloud_nonsense": Dish(1, _calls(CLOUD)),
    "credentials_expired": Dish(1, _window()),
    "launch_lost": Dish(2, _next()),
    "launch_answered_too_late": Dish(1, _next()),
    "launch_not_made": Dish(1, _next()),
    "launch_hangs": Dish(1, _next()),
    "launch_late": Dish(1, _next(late_s=_within_settle(0.3)), 1),
    "no_capacity": Dish(2, _next(flavour=_flavour)),
    "quota_reached": Dish(1, _next()),
    "launch_misconfigured": Dish(1, _next()),
    "launch_partial": Dish(1, _next(most=_whole(1, 3))),
    "slow_to_show": Dish(2, _next(lag_s=_within_settle(0.3)), 1),
    "address_late": Dish(1, _next(lag_s=_seconds(10.0, 200.0))),
    "answers_doubled": Dish(1, _window()),
    "pages_shift": Dish(1, _window(), 1),
    "odd_states": Dish(1, _window(part=_any(0.2, 0.6, 1.0))),
    "listing_lags": Dish(1, _window(lag_s=_within_settle(0.25)), 1),
    "terminate_refused": Dish(1, _next()),
    "terminate_not_done": Dish(1, _next()),
    "terminate_first_only": Dish(1, _next()),
    "terminate_unheard": Dish(1, _next()),
    "terminate_late": Dish(1, _next(late_s=_seconds(5.0, 120.0))),
    "stop_refused": Dish(2, _next()),
    "stop_not_done": Dish(2, _next()),
    "stop_unheard": Dish(2, _next()),
    "stop_late": Dish(2, _next(late_s=_seconds(5.0, 120.0))),
    "start_lost": Dish(2, _next()),
    "start_not_made": Dish(2, _next()),
    "start_refused": Dish(2, _next()),
    "start_no_capacity": Dish(2, _next()),
    "starts_dead": Dish(2, _next()),
    # the daemon
    "kill": Dish(4, _kill),
    "restart": Dish(1, lambda dice, s: {"down_s": span(dice, 1.0, 600.0)}),
    "disk_trouble": Dish(2, _no_share(30.0, HOUR_S, how=_any("full", "readonly"))),
    "store_damaged": Dish(
        2,
        lambda dice, s: {
            "how": dice.one_of(("removed", "emptied", "truncated", "overwritten", "garbage")),
            "down_s": span(dice, 1.0, 600.0),
        },
        2,
    ),
    "reconfigured": Dish(3, _change, 4),
    "adopted": Dish(1, lambda dice, s: {}),
    "log_fails": Dish(1, _no_share(60.0, HOUR_S), 1),
    "clock_steps": Dish(2, lambda dice, s: {"by_s": dice.one_of((-HOUR_S, HOUR_S, -60.0, 90.0))}),
    "head_sleeps": Dish(2, _no_share(30.0, 2 * HOUR_S, counts=_any(True)), 2),
}

# A list that hides workers, and boots that take until the deadline, do not come together.
HIDE_WORKERS, SLOW = frozenset({"batch_empty", "workers_missing"}), "slow_boots"

# Of use only where a pool stops its machines.
OF_STOPS = frozenset(
    "turned_by_hand instance_store stop_refused stop_not_done stop_unheard stop_late start_lost start_not_made "
    "start_refused start_no_capacity starts_dead".split()
)

# A cloud that keeps no tags, or no tokens, is so all the time; with neither, who loses an id has lost the
# machine: what could make that happen does not come then.
FORGETFUL = ("tags_refused", "tokens_ignored")
LOSE_IDS = frozenset(
    "kill restart store_damaged disk_trouble head_sleeps reconfigured launch_lost launch_answered_too_late launch_late "
    "cloud_late cloud_nonsense cloud_hangs".split()
)
