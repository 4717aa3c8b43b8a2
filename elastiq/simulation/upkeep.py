"""The judge of what a daemon shows of itself: that it goes on, forgets nothing, keeps secrets, and explains.

The other half of `elastiq.simulation.checker`, which judges its calls. It looks at the status that the
control socket would hand out, at the log, at the counts of calls and at the state file.
"""

from __future__ import annotations

import json
import logging
import math
import traceback
from collections import Counter, deque
from typing import Any, Callable, Mapping, Optional, Sequence

from elastiq.interfaces import InstanceState
from elastiq.settings import Settings
from elastiq.simulation.checker import DEADLINE_S, Checker
from elastiq.simulation.registrations import Registrations
from elastiq.simulation.statefile import StateFile
from elastiq.simulation.witness import Listener, Record, Witness

Status = Mapping[str, Any]

LOOK_EVERY_S = 60.0
STATUS_EVERY_S = 240.0  # it takes as long to make as to live for some minutes
CONFIRM_EVERY_S = 300.0  # that what a listing names is in the registry
HEARTBEAT_WITHIN_S = 90.0  # it beats every 30 s
ABANDONED_AT_MOST = 8  # see the exemptions
HOUR_S = 3600.0
# Counters in the status that only a bug in elastiq moves.
BUGS = ("handler_faults", "illegal_transitions", "plugin_faults")
# Counters of what the history tells of machines that boot.
MOVES = ("pending", "booting", "idle", "busy", "failed", "stopped", "terminating", "gone")
# In a row without a success, on one offer, within an hour: with back-off from 5 s, doubled up to 600 s.
FAILED_LAUNCHES_PER_H = 20


class Upkeep(Listener):
    """``status`` gives the present status; None while no daemon runs. ``beat_age_s``: see `Trial`."""

    def __init__(
        self,
        checker: Checker,
        witness: Witness,
        status: Callable[[], Optional[Status]],
        beat_age_s: Callable[[], Optional[float]],
        secrets: Sequence[str] = (),
    ) -> None:
        self._checker, self._witness, self._status = checker, witness, status
        self._beat_age_s, self.secrets = beat_age_s, secrets
        self.registrations: Optional[Registrations] = None
        self._listed: dict[str, float] = {}  # ids that a listing named: by then they must be in the status
        self._confirmed: dict[str, float] = {}
        self._due = math.inf
        self._look_at = 0.0
        self._started_s = 0.0
        self._calls: deque[tuple[float, str]] = deque()
        self._per_h: Counter[str] = Counter()
        self._failing: dict[str, list[float]] = {}
        self._bugs: Counter[str] = Counter()
        self._moves = 0
        self._reported: set[str] = set()

    def born(self) -> None:
        """A daemon has started."""
        self._started_s = self._now
        self._listed.clear()
        self._confirmed.clear()
        self._failing.clear()
        self._bugs.clear()
        self._checker.canaries.born()

    def wakes(self) -> None:
        """Until now nothing could go on."""
        self._started_s = self._now

    @property
    def _now(self) -> float:
        return self._checker.world.now

    def once(self, invariant: str, key: str, what: str) -> None:
        """Report a lasting state once."""
        if key not in self._reported:
            self._reported.add(key)
            self._checker.fail(invariant, what)

    # ------------------------------------------------------------------ calls

    def called(self, record: Record) -> None:
        """A call of the daemon arrives there: I8."""
        if self.registrations is not None:
            self.registrations.called(record)
        name = record.name
        self._calls.append((self._now, name))
        self._per_h[name] += 1
        while self._calls[0][0] < self._now - HOUR_S:
            self._per_h[self._calls.popleft()[1]] -= 1
        most = self.most_calls(name, record.settings)
        if most is not None and self._per_h[name] > most:
            self.once("I8", f"I8 {name}", f"{self._per_h[name]} calls of {name} within an hour: at most {most:.0f}")

    def most_calls(self, name: str, s: Settings) -> Optional[float]:
        """How often a call may be made within an hour. Reads have their periods; the workers are looked at
        every 10 s while a machine boots or drains, and once more after each drain; the queue once more after
        each look at the workers that saw jobs start. None has to do with the number of jobs."""
        attentive = HOUR_S / min(10.0, s.check_vms_every_s)
        acts = self._per_h["drain"] + self._per_h["undrain"]
        sites = max(1, len(s.sites))
        looks = attentive + 2 * acts + 60
        return {
            "jobs": HOUR_S / s.check_queue_every_s + looks + 60,
            "workers": looks,
            "instances": sites * (attentive + 60),
            "problems": sites * (HOUR_S / s.check_vms_in_error_every_s + 10),
            "find": sites * (attentive + 60),
            "jobs_recorded_on": looks,
            # Each is asked again after 30 s at the soonest, and those of one moment in one call.
            "terminate": sites * (attentive + 2 * acts + 60),
            "stop": sites * (attentive + 2 * acts + 60),
        }.get(name)

    def heard(self, record: Record) -> None:
        """The daemon hears of a call."""
        if record.name == "launch":
            self._launched(record)
        elif record.name == "instances" and record.error is None and record.life == self._witness.life:
            for row in record.value.owned:
                if row.state is not InstanceState.TERMINATED:
                    if self._now - self._confirmed.get(row.id, -math.inf) > CONFIRM_EVERY_S:
                        self._listed.setdefault(row.id, self._now + 1.0)
                        self._due = min(self._due, self._now + 1.0)

    def _launched(self, record: Record) -> None:
        offer = str(record.args[0].offer)
        if record.error is None:
            self._failing.pop(offer, None)
            return
        failing = self._failing.setdefault(offer, [])
        failing.append(self._now)
        recent = [at for at in failing if at > self._now - HOUR_S]
        self._failing[offer] = recent
        if len(recent) > FAILED_LAUNCHES_PER_H:
            self.once("I8", f"failing {offer}", f"{len(recent)} launches of {offer} failed within an hour: no back-off")

    # ------------------------------------------------------------------ looks

    def beat(self, counters: Mapping[str, int]) -> None:
        """An event of the daemon is over."""
        for bug in BUGS:
            if counters.get(bug, 0) > self._bugs[bug]:
                self._bugs[bug] = counters[bug]
                status = self._status() or {}
                self._checker.fail("bug", f"{bug}: {dict(status.get('faults', {}))}")
        moves = sum(counters.get(f"moves_{state}", 0) for state in MOVES)
        if moves != self._moves:
            self._moves = moves
            self._checker.canaries.moved()
        if self._due <= self._checker.world.clock.monotonic():
            self._registered()

    def look(self) -> None:
        """Every now and then."""
        if self.registrations is not None:
            self.registrations.look()
        age_s = self._beat_age_s()
        if age_s is not None:
            self._goes_on(age_s, self._witness.begun)
        if self._now < self._look_at:
            return
        self._look_at = self._now + STATUS_EVERY_S
        status = self._status()
        if status is None:
            return
        self.explained(status)
        self.no_secret("the status", json.dumps(status, default=str))

    def _goes_on(self, age_s: float, begun: Mapping[str, float]) -> None:
        settings = self._checker.settings()
        if age_s > HEARTBEAT_WITHIN_S:
            self.once("I10", "beat", f"no heartbeat for {age_s:.0f} s")
        periods = {"jobs": settings.check_queue_every_s, "workers": settings.check_vms_every_s}
        for name, period in periods.items():
            since_s = self._now - max(begun.get(name, 0.0), self._started_s)
            if (
                since_s > period + DEADLINE_S[name] + LOOK_EVERY_S
                and self._witness.hung.get(name, 0) < ABANDONED_AT_MOST
            ):
                self.once("I10", f"begun {name}", f"no read of {name} was begun for {since_s:.0f} s")

    def _registered(self) -> None:
        """I4: what a good listing named is in the registry."""
        status = self._status()
        if status is None:
            return
        known = {node["id"] for node in status["nodes"]}
        due = [name for name, when in self._listed.items() if when <= self._now]
        self._due = min((when for when in self._listed.values() if when > self._now), default=math.inf)
        for name in due:
            del self._listed[name]
            self._confirmed[name] = self._now
            machine = self._checker.book.ours.get(name)
            if machine is not None and not machine.ended and name in self._checker.world.machines:
                if name not in known:
                    self._checker.fail("I4", f"{name} was listed as ours, and is not in the registry")

    def last_look(self, state: StateFile) -> None:
        """At the end."""
        for secret in self.secrets:
            if state.holds(secret.encode()):
                self.once("I11", "store", "a planted secret is in the state file")
        status = self._status()
        if status is not None:
            known = {node["id"] for node in status["nodes"]}
            world = self._checker.world
            for name, machine in self._checker.book.ours.items():
                if not machine.ended and name in world.machines and name not in known:
                    self._checker.fail("I4", f"{name} is ours, and in the end it is not in the registry")

    def explained(self, status: Status) -> None:
        """I12: what waits without being served has a reason, and so has each step of the plan."""
        for group in status["queue"]["groups"]:
            if group["held"] + group["launching"] < group["waiting"] and not group["reason"].strip():
                self.once(
                    "I12", f"group {group['key']}", f"{group['waiting']} jobs {group['key']} wait without a reason"
                )
        plan = status["last_plan"]
        for step in (*plan["launch"], *plan["drain"], *plan["terminate"]):
            if not step["reason"].strip():
                self.once("I12", f"plan {step}", f"a step of the plan has no reason: {step}")

    def no_secret(self, where: str, text: str) -> None:
        for secret in self.secrets:
            if secret in text:
                self.once("I11", f"secret {where}", f"a planted secret is in {where}")


class LogWatch(logging.Handler):
    """I11 for the log, and the last lines of it for the report."""

    def __init__(self, upkeep: Upkeep, tell: Callable[[str], None]) -> None:
        super().__init__(logging.DEBUG)
        self._upkeep, self._tell = upkeep, tell

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info))
        self._upkeep.no_secret("the log", text)
        if record.levelno >= logging.INFO:
            self._tell(f"log: {text}")
