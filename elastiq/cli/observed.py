"""What an elastiq that ran here has learned, for a simulation: read from a copy of its state, if that may be read."""

from __future__ import annotations

from elastiq.cli.copied import STATE, CopiedStore
from elastiq.errors import StoreError
from elastiq.metrics.tally import Tally
from elastiq.paths import Paths
from elastiq.store import learned_from_json
from elastiq.whatif.assuming import Observed


def observed(paths: Paths) -> Observed:
    """Nothing where there is no state, or it is not for whom asks: the simulation then says what it assumes."""
    try:
        store = CopiedStore(paths.statedir / STATE)
        learned = learned_from_json(store.recall("learned") or ())
        lines = store.read("SELECT number, at, what, node, pool, reason FROM history ORDER BY number", ())
    except (StoreError, OSError):
        return Observed()
    tally = Tally()
    tally.take(lines)
    boots = sum(sum(one.counts) for one in tally.boot.values())
    total_s = sum(one.total for one in tally.boot.values())
    return Observed(learned, total_s / boots, boots) if boots else Observed(learned)
