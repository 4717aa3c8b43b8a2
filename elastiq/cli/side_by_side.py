"""Makes the looks of every source side by side, and says what they found.

Each look has a thread and a time of its own: one that fails or hangs is unknown, and hides no other.
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterable, Mapping, Optional

from elastiq import command
from elastiq.interfaces import Check, Looks, SourceError

AT_ONCE = 4  # for each source: a cloud counts requests
PATIENCE_S = 5.0
END_S = 1.0
LEVELS = ("ok", "warning", "unknown", "error")  # the later, the worse


@dataclass(frozen=True)
class Finding:
    """One check, and of which source it is."""

    source: str
    check: Check


def found(
    sources: Mapping[str, Looks], deadline_s: float, slow: Optional[Callable[[list[str]], None]] = None
) -> list[Finding]:
    """What all looks find, in the order of the sources and of their looks. ``slow`` is told once whom we wait for."""
    lanes = [lane for source, looks in sources.items() for lane in _lanes(source, looks, deadline_s)]
    end = time.monotonic() + PATIENCE_S
    try:
        for lane in lanes:
            lane.thread.start()
        for lane in lanes:
            while lane.thread.is_alive():
                lane.thread.join(max(0.05, end - time.monotonic()))
                if slow and time.monotonic() >= end:
                    waiting = [f"{one.source}: {one.now}" for one in lanes if one.now]
                    if waiting:
                        slow(waiting)
                    slow = None
    except KeyboardInterrupt:
        command.kill_all()  # even if no look is seen: one may just begin
        _end(lanes)
        raise
    _end(lanes)
    command.stopping.clear()
    made = {key: checks for lane in lanes for key, checks in lane.made.items()}
    order = ((source, subject) for source, looks in sources.items() for subject in looks)
    return [Finding(source, check) for source, subject in order for check in made[source, subject]]


def _end(lanes: Iterable[_Lane]) -> None:
    """End the commands of looks that hang; what hangs otherwise ends with the process."""
    # One that is not alive has ended meanwhile, or is just being started.
    hanging = [thread for lane in lanes for thread in tuple(lane.hanging) if thread.is_alive()]
    if hanging:
        command.kill_all()
        end = time.monotonic() + END_S
        for thread in hanging:
            thread.join(max(0.0, end - time.monotonic()))


def worst(checks: Iterable[Check]) -> str:
    """The worst level of some; "ok" of none."""
    return max((check.level for check in checks), key=LEVELS.index, default="ok")


class _Lane:
    """Makes looks of one source, one after the other, until none is left."""

    def __init__(self, source: str, todo: queue.SimpleQueue[str], looks: Looks, deadline_s: float) -> None:
        self.source, self.now = source, ""
        self.made: dict[tuple[str, str], list[Check]] = {}
        self.hanging: list[threading.Thread] = []
        self._todo, self._looks, self._deadline_s = todo, looks, deadline_s
        self.thread = threading.Thread(target=self._work, name=f"elastiq check {source}", daemon=True)

    def _work(self) -> None:
        while True:
            try:
                self.now = self._todo.get_nowait()
            except queue.Empty:
                self.now = ""
                return
            self.made[self.source, self.now] = self._within_time(self.now)

    def _within_time(self, subject: str) -> list[Check]:
        result: list[list[Check]] = []
        look = self._looks[subject]
        thread = threading.Thread(target=lambda: result.append(_made(subject, look)), daemon=True)
        self.hanging.append(thread)
        thread.start()
        thread.join(self._deadline_s)
        if result:
            self.hanging.remove(thread)
            return result[0]
        late = f"no answer within {self._deadline_s:g} s"
        return [Check(subject, "unknown", late, "see what hangs there; --timeout waits longer")]


def _lanes(source: str, looks: Looks, deadline_s: float) -> list[_Lane]:
    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    for subject in looks:
        todo.put(subject)
    return [_Lane(source, todo, looks, deadline_s) for _ in range(min(AT_ONCE, len(looks)))]


def _made(subject: str, look: Callable[[], Iterable[Check]]) -> list[Check]:
    try:
        return list(look())
    except SourceError as error:
        return [Check(subject, "unknown", " ".join(str(error).split()))]
    except OSError as error:
        return [Check(subject, "unknown", f"{error.filename or 'system'}: {error.strerror or type(error).__name__}")]
    except Exception as error:  # noqa: BLE001 - a fault of a plugin hides no other check, and is told
        # Not its text: it may hold whatever the plugin handled.
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"fault in {Path(place.filename).name}, line {place.lineno}: {type(error).__name__}"
        return [Check(subject, "unknown", text, "please report it")]
