"""What flavours have by the cloud's own catalogue, for pools whose configuration does not say it."""

from __future__ import annotations

from functools import partial
from typing import Callable, Mapping

from elastiq.core import Core
from elastiq.executor import Outcome
from elastiq.interfaces import JobGroup, Pool, Resources
from elastiq.situation import BEING_ASKED, Fits

AGAIN_S = 600.0  # after a failure
PATIENCE_S = 10.0  # then jobs go to where the sizes are known, though it may be dearer


class Catalogue:
    """Asks each site once; what it says stands in ``registry.catalogue``. ``replan`` is called when it has."""

    def __init__(self, core: Core, replan: Callable[[], None]) -> None:
        self._core, self._replan = core, replan
        self._next: dict[str, float] = {}  # by site: when it may be asked, again after a failure
        self._asked_at: dict[str, float] = {}
        self._answered: set[str] = set()  # that were asked, with whatever outcome

    def ask(self) -> None:
        """Ask the sites that were not asked yet, or could not tell the last time."""
        core = self._core
        for site in sorted(self._sites() & core.clouds.keys()):
            if core.now() >= self._next.get(site, 0.0):
                names = [name for pool in core.settings.sites[site] for name in pool.flavours if name]
                call = partial(core.clouds[site].flavours, list(dict.fromkeys(names)))
                if core.read(f"flavours {site}", core.clouds[site], call, partial(self._took, site)):
                    self._next[site], self._asked_at[site] = float("inf"), core.now()

    def before(self, fits: Fits) -> Fits:
        """What fits, while the sizes at some sites are being asked: nothing there. The other sites need not wait."""
        now, asking = self._core.now(), {}
        for site in self._sites() - self._answered:
            late = now - self._asked_at.get(site, now) >= PATIENCE_S
            asking[site] = "their sizes are not known yet" if late else BEING_ASKED

        def known(group: JobGroup, pool: Pool, flavour: str, machine: Resources) -> tuple[bool, str]:
            if pool.site in asking and _lacks_size(pool):
                return False, asking[pool.site]
            return fits(group, pool, flavour, machine)

        return known if asking else fits

    def _sites(self) -> set[str]:
        return {pool.site for pool in self._core.settings.pools if _lacks_size(pool)}

    def _took(self, site: str, outcome: Outcome[Mapping[str, Resources]]) -> None:
        core = self._core
        self._answered.add(site)
        if not core.failed(f"flavours {site}", f"sizes of the flavours at {site}", outcome):
            core.registry.catalogue.update({(site, name): size for name, size in (outcome.value or {}).items()})
        else:
            self._next[site] = core.now() + AGAIN_S
        self._replan()


def _lacks_size(pool: Pool) -> bool:
    return None in (pool.capacity.cpus, pool.capacity.memory_mb) and any(pool.flavours)
