"""What flavours have by the cloud's own catalogue, for pools whose configuration does not say it."""

from __future__ import annotations

from functools import partial
from typing import Mapping

from elastiq.core import Core
from elastiq.executor import Outcome
from elastiq.interfaces import Resources

AGAIN_S = 600.0  # after a failure


class Catalogue:
    """Asks each site once; what it says stands in ``registry.catalogue``."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._next: dict[str, float] = {}  # by site: when it may be asked, again after a failure
        self._answered: set[str] = set()  # that were asked, with whatever outcome

    def ask(self) -> None:
        """Ask the sites that were not asked yet, or could not tell the last time."""
        core = self._core
        for site in self._sites() & core.clouds.keys():
            if core.now() >= self._next.get(site, 0.0):
                names = [name for pool in core.settings.sites[site] for name in pool.flavours if name]
                call = partial(core.clouds[site].flavours, list(dict.fromkeys(names)))
                if core.read(f"flavours {site}", core.clouds[site], call, partial(self._took, site)):
                    self._next[site] = float("inf")

    def why_unknown(self) -> str:
        """Why nothing should be launched yet; empty once each site was asked."""
        waiting = sorted(self._sites() - self._answered)
        return f"the sizes of the flavours at {', '.join(waiting)} are being asked" if waiting else ""

    def _sites(self) -> set[str]:
        pools = (pool for pool in self._core.settings.pools if None in (pool.capacity.cpus, pool.capacity.memory_mb))
        return {pool.site for pool in pools if any(pool.flavours)}

    def _took(self, site: str, outcome: Outcome[Mapping[str, Resources]]) -> None:
        core = self._core
        self._answered.add(site)
        if not core.failed(f"flavours {site}", f"sizes of the flavours at {site}", outcome):
            found = {(site, name): resources for name, resources in (outcome.value or {}).items()}
            core.registry.catalogue.update(found)
        else:
            self._next[site] = core.now() + AGAIN_S
