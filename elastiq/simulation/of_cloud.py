"""What befalls the cloud's answers and its acts. ``site`` empty: every site."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Callable, Mapping, TypeVar

from elastiq.interfaces import (
    AuthError,
    CapacityError,
    ConfigurationError,
    EndAnswer,
    EndOutcome,
    Instance,
    Instances,
    InstanceState,
    QuotaError,
    SourceError,
    ThrottledError,
    TransientError,
)
from elastiq.simulation.chaos import Fault, Strike
from elastiq.simulation.kinds import (
    CLOUD,
    LAUNCHES,
    LISTINGS,
    Kind,
    answered_late,
    hanging,
    hanging_after,
    raising,
    raising_after,
    unheard_late,
    window,
)
from elastiq.simulation.model import Machine
from elastiq.simulation.scenario import Happening
from elastiq.simulation.stage import Stage

T = TypeVar("T")


def _calls(names: Any, fault: Fault) -> Kind:
    return lambda stage, it: window(stage, it, names, fault)


def _by_call(launch: Fault, other: Fault) -> Fault:
    return lambda strike: (launch if strike.call.name in LAUNCHES else other)(strike)


DOWN = _by_call(raising(TransientError, "HTTP 503"), raising(SourceError, "HTTP 503"))
NONSENSE = _by_call(
    raising_after(TransientError, "success without ids"),
    raising_after(SourceError, "no Reservations in the answer: is a login page in between?"),
)


def cloud_late(stage: Stage, it: Happening) -> None:
    """Answers come up to ``late_s`` late."""
    window(stage, it, CLOUD, answered_late(it.args["late_s"]))


# --------------------------------------------------------------------------- launches


def launch_late(stage: Stage, it: Happening) -> None:
    """Launches fail, and take effect up to ``late_s`` later all the same."""
    window(stage, it, ("launch",), unheard_late(stage, TransientError, it.args["late_s"]))


def no_capacity(stage: Stage, it: Happening) -> None:
    """There is no room for offers of a ``flavour``, a ``network``, a ``pool``; of all where none is named."""

    def fault(strike: Strike) -> Any:
        offer = strike.call.args[0].offer
        asked = {"flavour": offer.flavour, "network": offer.network, "pool": offer.pool}
        if all(it.args.get(name, value) == value for name, value in asked.items()):
            raise CapacityError(f"RunInstances at {strike.call.source}: InsufficientInstanceCapacity for {offer}")
        return strike.work()

    window(stage, it, ("launch",), fault)


def launch_partial(stage: Stage, it: Happening) -> None:
    """A launch makes ``most`` instances at most."""
    window(stage, it, ("launch",), _at_most(stage, "launch_at_most", it.args["most"]))


def _at_most(stage: Stage, limit: str, most: int) -> Fault:
    """For one call only."""

    def fault(strike: Strike) -> Any:
        setattr(stage.world, limit, most)
        try:
            return strike.work()
        finally:
            setattr(stage.world, limit, None)

    return fault


def tags_refused(stage: Stage, it: Happening) -> None:
    """The cloud knows no tags: the first launch that sends some is refused, later ones are made without."""

    def fault(strike: Strike) -> Any:
        if strike.number == 1:
            error = f"RunInstances at {strike.call.source}: InvalidParameterValue: TagSpecification"
            raise TransientError(f"{error}; asked without tags from now on", launched_nothing=True)
        return strike.work()

    def untagged(machine: Machine, chances: Callable[..., float]) -> None:
        machine.cluster = machine.head = machine.pool = machine.intent = ""

    window(stage, it, ("launch",), fault, untagged)


def tokens_ignored(stage: Stage, it: Happening) -> None:
    """The cloud keeps no ClientToken."""
    window(stage, it, birth=lambda machine, chances: setattr(machine, "token", ""))


def slow_to_show(stage: Stage, it: Happening) -> None:
    """No listing and no call knows a machine in its first seconds, up to ``lag_s``."""

    def hidden(machine: Machine, chances: Callable[..., float]) -> None:
        machine.visible_at = stage.world.now + it.args["lag_s"] * chances("lag")

    window(stage, it, birth=hidden)


def address_late(stage: Stage, it: Happening) -> None:
    """The cloud tells no address of a machine in its first seconds, up to ``lag_s``."""

    def without(machine: Machine, chances: Callable[..., float]) -> None:
        machine.addressed_at = stage.world.now + it.args["lag_s"] * chances("lag")

    window(stage, it, birth=without)


# --------------------------------------------------------------------------- listings


def _rows(answer: Any, change: Callable[[tuple[Instance, ...]], tuple[Instance, ...]]) -> Any:
    return replace(answer, owned=change(answer.owned)) if isinstance(answer, Instances) else change(answer)


def _doubled(strike: Strike) -> Any:
    """Each instance is there twice."""
    return _rows(strike.work(), lambda rows: rows + rows)


def _shifted(strike: Strike) -> Any:
    """One of three listings lacks an instance, as when pages shift while they are read."""
    answer = strike.work()
    if strike.number % 3 or not answer.owned:
        return answer
    lost = int(strike.chance("lost") * len(answer.owned))
    return replace(answer, owned=answer.owned[:lost] + answer.owned[lost + 1 :])


def odd_states(stage: Stage, it: Happening) -> None:
    """A ``part`` of the instances is listed in a state that nobody knows."""

    def fault(strike: Strike) -> Any:
        def odd(row: Instance) -> Instance:
            if strike.window.chance(row.id) >= it.args["part"] or row.state is InstanceState.TERMINATED:
                return row
            return replace(row, state=InstanceState.UNKNOWN, state_detail="shelved_offloaded")

        return _rows(strike.work(), lambda rows: tuple(map(odd, rows)))

    window(stage, it, LISTINGS, fault)


def listing_lags(stage: Stage, it: Happening) -> None:
    """A listing shows what was there ``lag_s`` ago, or at the first one of the window."""
    seen: dict[str, list[tuple[float, Any]]] = {}

    def fault(strike: Strike) -> Any:
        past = seen.setdefault(strike.call.source, [])
        past.append((stage.world.now, strike.work()))
        while len(past) > 1 and past[1][0] <= stage.world.now - it.args["lag_s"]:
            past.pop(0)
        return past[0][1]

    window(stage, it, ("instances",), fault)


# --------------------------------------------------------------------------- ends


def _end_refused(strike: Strike) -> Any:
    """A ``FAILED`` for each."""
    return {one: EndAnswer(EndOutcome.FAILED, "IncorrectInstanceState") for one in strike.call.args[0]}


def _end_not_done(strike: Strike) -> Any:
    """Answered as done, with nothing done."""
    return {one: EndAnswer(EndOutcome.ENDING) for one in strike.call.args[0]}


def terminate_first_only(stage: Stage, it: Happening) -> None:
    """Of a list of ids the first is ended, and the answer names only that."""

    window(stage, it, ("terminate",), _at_most(stage, "end_at_most", 1))


def terminate_late(stage: Stage, it: Happening) -> None:
    """Terminations fail, and take effect up to ``late_s`` later all the same."""
    window(stage, it, ("terminate",), unheard_late(stage, SourceError, it.args["late_s"]))


# --------------------------------------------------------------------------- stops and starts


def stop_late(stage: Stage, it: Happening) -> None:
    """Stops fail, and take effect up to ``late_s`` later all the same."""
    window(stage, it, ("stop",), unheard_late(stage, SourceError, it.args["late_s"]))


def starts_dead(stage: Stage, it: Happening) -> None:
    """Machines that are started again never join."""

    def fault(strike: Strike) -> Any:
        answer = strike.work()
        for name in strike.call.args[0]:
            if name in stage.world.machines:
                stage.world.machines[name].joins = False
        return answer

    window(stage, it, ("start",), fault)


def _of(error: Callable[[str], Exception], text: str, names: Any = ("launch",)) -> Kind:
    return _calls(names, raising(error, text))


_not_made = partial(TransientError, launched_nothing=False)

KINDS: Mapping[str, Kind] = {
    "cloud_throttles": _of(ThrottledError, "RequestLimitExceeded", CLOUD),
    "cloud_down": _calls(CLOUD, DOWN),
    "cloud_hangs": _calls(CLOUD, hanging),
    "cloud_late": cloud_late,
    "cloud_nonsense": _calls(CLOUD, NONSENSE),
    "credentials_expired": _of(AuthError, "RequestExpired", CLOUD),
    "launch_lost": _calls(("launch",), raising_after(TransientError, "HTTP 504")),
    "launch_answered_too_late": _calls(("launch",), hanging_after),
    "launch_not_made": _of(_not_made, "read timed out"),
    "launch_hangs": _calls(("launch",), hanging),
    "launch_late": launch_late,
    "no_capacity": no_capacity,
    "quota_reached": _of(QuotaError, "InstanceLimitExceeded"),
    "launch_misconfigured": _of(ConfigurationError, "InvalidAMIID.NotFound"),
    "launch_partial": launch_partial,
    "tags_refused": tags_refused,
    "tokens_ignored": tokens_ignored,
    "slow_to_show": slow_to_show,
    "address_late": address_late,
    "answers_doubled": _calls(("launch", *LISTINGS), _doubled),
    "pages_shift": _calls(("instances",), _shifted),
    "odd_states": odd_states,
    "listing_lags": listing_lags,
    "terminate_refused": _calls(("terminate",), _end_refused),
    "terminate_not_done": _calls(("terminate",), _end_not_done),
    "terminate_first_only": terminate_first_only,
    "terminate_unheard": _calls(("terminate",), raising_after(SourceError, "HTTP 504")),
    "terminate_late": terminate_late,
    "stop_refused": _calls(("stop",), _end_refused),
    "stop_not_done": _calls(("stop",), _end_not_done),
    "stop_unheard": _calls(("stop",), raising_after(SourceError, "HTTP 504")),
    "stop_late": stop_late,
    "start_lost": _calls(("start",), raising_after(TransientError, "HTTP 504")),
    "start_not_made": _of(_not_made, "read timed out", ("start",)),
    "start_refused": _calls(("start",), _end_refused),
    "start_no_capacity": _of(CapacityError, "InsufficientInstanceCapacity", ("start",)),
    "starts_dead": starts_dead,
}
