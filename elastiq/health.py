"""Where launching is held back after failures, and for how long.

Pure. A scope is an offer, a pool or a site. What begins a block is in `elastiq.refusals`; when one ends, the
next launch there is the probe. A pool whose boots never join gets one machine at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from elastiq.interfaces import Offer

BOOTS_BEFORE_BREAK = 3
REPLACED_EVERY_S = 3600.0


@dataclass
class Block:
    until: float  # monotonic
    wait_s: float
    reason: str


@dataclass
class Health:
    """Blocks by scope, and the count of boots in a row that never joined, by pool."""

    blocks: dict[str, Block] = field(default_factory=dict)
    failed_boots: dict[str, int] = field(default_factory=dict)
    replacements: dict[str, list[tuple[float, str]]] = field(default_factory=dict)  # of black holes: when, flavour

    times: dict[str, float] = field(default_factory=dict)  # monotonic: of the last "launch", "end" and "failure"

    def launched(self, offer: Offer, site: str) -> None:
        """A launch succeeded in full: nothing holds it back any more."""
        for scope in (f"offer {offer}", f"pool {offer.pool}", f"site {site}"):
            self.blocks.pop(scope, None)

    def blocked(self, offer: Offer, site: str, now: float) -> str:
        """Why nothing may be launched from this offer now; empty when it may."""
        for scope in (f"site {site}", f"pool {offer.pool}", f"offer {offer}"):
            block = self.blocks.get(scope)
            if block and now < block.until:
                return f"{scope} is held back for another {block.until - now:.0f} s: {block.reason}"
        return ""

    def boot_joined(self, pool: str) -> None:
        if self.failed_boots.pop(pool, 0) >= BOOTS_BEFORE_BREAK:
            self.blocks.pop(f"pool {pool}", None)

    def unreplaced(self, now: float) -> list[tuple[str, str]]:
        """Pool and flavour of each black hole whose replacement may not be launched yet."""
        return [(pool, of) for pool, entries in self.replacements.items() for at, of in entries if at > now]

    def doubt(self, pool: str, now: float) -> float:
        """By how many times a pool has to be cheaper than others: its boots failed lately, or jobs died there."""
        holes = sum(at > now - REPLACED_EVERY_S for at, _ in self.replacements.get(pool, ()))
        return 1.0 + self.failed_boots.get(pool, 0) + holes

    def breaker(self, pool: str) -> Optional[str]:
        """Why the pool gets one machine at a time; None while it is trusted."""
        failed = self.failed_boots.get(pool, 0)
        why = f"the last {failed} machines of pool {pool} never joined: one at a time until one does"
        return why if failed >= BOOTS_BEFORE_BREAK else None
