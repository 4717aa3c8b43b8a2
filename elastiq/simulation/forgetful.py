"""The store of a daemon that is never started again: it writes nothing, and everything else is the production code."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from elastiq.demand import Trial
from elastiq.interfaces import Intent
from elastiq.nodes import Node
from elastiq.store import Line, Store


class ForgetfulStore(Store):
    """As a new, empty one at any time."""

    def __init__(self) -> None:
        super().__init__(":memory:")

    def save(self, nodes: Iterable[Node], history: Sequence[Line] = ()) -> None:
        pass

    def journal(self, intent: Intent, nodes: Iterable[Node]) -> None:
        pass

    def close_intent(self, intent_id: str) -> None:
        pass

    def replace_trials(self, trials: Iterable[Trial]) -> None:
        pass

    def remember(self, key: str, value: Any) -> None:
        pass
