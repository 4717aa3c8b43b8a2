"""The daemon without the looks between a drain and the end: what it is draining, it ends."""

from __future__ import annotations

import sys
from typing import Callable, Sequence

from elastiq import ending, service
from elastiq.core import Core
from elastiq.nodes import Node, State
from elastiq.planner import Step


class HastyEnding(ending.Ending):
    def __init__(self, core: Core, look_again: Callable[[], None], no_end: Callable[[], str]) -> None:
        def end_at_once() -> None:
            drained = [node for node in core.registry if node.state is State.DRAINING and not node.acting]
            self.end_for_good([Step(node, node.reason) for node in drained])

        super().__init__(core, end_at_once, no_end)

    def still(self, nodes: Sequence[Node]) -> bool:
        return True


if __name__ == "__main__":
    for module in [module for module in sys.modules.values() if getattr(module, "Ending", None) is ending.Ending]:
        setattr(module, "Ending", HastyEnding)  # noqa: B010
    sys.exit(service.main())
