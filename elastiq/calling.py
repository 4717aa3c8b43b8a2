"""Where calls to the outside are sent. For the type checker: `elastiq.threads` has the one of the daemon."""

from __future__ import annotations

from typing import Any, Callable, Protocol, TypeVar

from elastiq.executor import Done, Still, always

T = TypeVar("T")


class Executor(Protocol):
    """Where the daemon sends its calls; `elastiq.simulation` has one in virtual time."""

    def read(self, source: str, call: Callable[[], T], done: Done[T], deadline_s: float) -> bool:
        """Start a read unless one of this source is in flight (then False). ``done`` runs on the loop."""

    def act(
        self, source: str, node: str, call: Callable[[], T], done: Done[T], deadline_s: float, still: Still = always
    ) -> None:
        """Queue an act on a node of a source. ``done`` runs on the decision thread, and so does ``still`` when its
        turn comes: if that says False, it is given back unsent."""

    def close(self, wait_s: float) -> Any:
        """Take no more calls; wait up to ``wait_s`` for those in flight."""
