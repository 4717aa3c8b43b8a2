"""What holds launching back: a refused launch, boots that never join, a machine that the cloud takes. Imported when
there is one.

Pure. Blocks grow exponentially up to 600 s.
"""

from __future__ import annotations

from typing import Mapping

from elastiq.health import BOOTS_BEFORE_BREAK, Block, Health
from elastiq.interfaces import AuthError, CapacityError, ConfigurationError, Offer, QuotaError, ThrottledError

LONGEST_S = 600.0

# error -> (what it holds back, first wait in seconds)
SCOPES: Mapping[type[BaseException], tuple[str, float]] = {
    CapacityError: ("offer", 60.0),
    QuotaError: ("pool", 60.0),
    ThrottledError: ("site", 5.0),
    ConfigurationError: ("pool", 60.0),
    AuthError: ("site", 60.0),
}


def refused(health: Health, offer: Offer, site: str, error: BaseException, now: float) -> str:
    """Hold back what the error of a launch, or the end of a machine that the cloud takes, concerns. Returns the
    scope."""
    other = ("offer", getattr(error, "retry_s", 10.0))
    kind, first_s = next((scope for cls, scope in SCOPES.items() if isinstance(error, cls)), other)
    scope = {"offer": f"offer {offer}", "pool": f"pool {offer.pool}", "site": f"site {site}"}[kind]
    before = health.blocks.get(scope)
    wait_s = min(LONGEST_S, max(first_s, before.wait_s * 2 if before else 0.0))
    health.blocks[scope] = Block(now + wait_s, wait_s, str(error))
    return scope


def short(health: Health, offer: Offer, got: int, asked: int, now: float) -> None:
    """The cloud gave fewer than asked for: it has no more of this just now."""
    health.blocks[f"offer {offer}"] = Block(now + 60.0, 60.0, f"gave {got} of {asked} instances")


def boot_failed(health: Health, pool: str, now: float) -> None:
    """Once the breaker is open, the pause before the next canary grows with each that fails."""
    health.times["failure"] = now
    failed = health.failed_boots[pool] = health.failed_boots.get(pool, 0) + 1
    if failed >= BOOTS_BEFORE_BREAK:
        wait_s = min(LONGEST_S, 60.0 * 2 ** min(failed - BOOTS_BEFORE_BREAK, 10))
        health.blocks[f"pool {pool}"] = Block(now + wait_s, wait_s, f"{failed} boots in a row never joined")
