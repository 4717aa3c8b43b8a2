"""Calls to the outside, counted: an executor that passes everything on."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from functools import partial
from typing import Any, Callable, TypeVar

from elastiq.calling import Executor
from elastiq.executor import Done, Outcome, Still, UnsentError, always
from elastiq.metrics.families import Summary, Values

T = TypeVar("T")
CODES = 200  # a cloud that answers with ever new codes cannot fill memory
OTHER = "other"


class CountingExecutor:
    """See `elastiq.calling.Executor`."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.took: defaultdict[tuple[str, ...], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
        self.errors: Counter[tuple[str, ...]] = Counter()
        self.requests: Counter[tuple[str, ...]] = Counter()
        self.refusals: Counter[tuple[str, ...]] = Counter()
        self._lock = threading.Lock()  # of the last two, which many threads count

    def read(self, source: str, call: Callable[[], T], done: Done[T], deadline_s: float) -> bool:
        return self.executor.read(source, call, self._counted(source, _operation(call), done), deadline_s)

    def act(
        self, source: str, node: str, call: Callable[[], T], done: Done[T], deadline_s: float, still: Still = always
    ) -> None:
        # Acts on a cloud have a key that begins with what they do.
        operation = node.partition(" ")[0] if source.startswith("cloud ") else _operation(call)
        self.executor.act(source, node, call, self._counted(source, operation, done), deadline_s, still)

    def close(self, wait_s: float) -> Any:
        return self.executor.close(wait_s)

    def requested(self, site: str, operation: str, code: str, count: int) -> None:
        """So many requests were sent to a cloud's API; the ``code`` of the answer, empty if it was no error. From any
        thread."""
        with self._lock:
            self.requests[site, operation] += count
            if code:
                known = len(self.refusals) < CODES or (site, operation, code) in self.refusals
                self.refusals[site, operation, code if known else OTHER] += 1

    def _counted(self, source: str, operation: str, done: Done[T]) -> Done[T]:
        _, is_site, site = source.partition(" ")
        of_cloud = bool(is_site) and source != "recorded jobs"
        whose = ("cloud", site, operation) if of_cloud else ("batch", "", operation)

        def take(outcome: Outcome[T]) -> None:
            if not isinstance(outcome.error, UnsentError):
                calls, seconds = self.took[whose]
                self.took[whose] = calls + 1, seconds + outcome.ended - outcome.began
            if outcome.error is not None:
                self.errors[(*whose, type(outcome.error).__name__)] += 1
            done(outcome)

        return take

    def values(self) -> Values:
        """The families that are filled from here. On the decision thread."""
        with self._lock:
            requests, refusals = dict(self.requests), dict(self.refusals)
        return {
            "elastiq_calls_total": {whose: calls for whose, (calls, _) in self.took.items()},
            "elastiq_call_duration_seconds": {whose: Summary(*took) for whose, took in self.took.items()},
            "elastiq_call_errors_total": dict(self.errors),
            "elastiq_api_requests_total": requests,
            "elastiq_api_errors_total": refusals,
        }


def _operation(call: Callable[[], object]) -> str:
    """The method of the plugin that is called."""
    while isinstance(call, partial):
        call = call.func
    name = getattr(call, "__name__", OTHER)
    return OTHER if name == "<lambda>" else str(name)
