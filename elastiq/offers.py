"""What can be launched: pools, their offers, and a launch that is about to be asked for.

Part of the contracts: plugins take these from `elastiq.interfaces`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any, Mapping, Optional

from elastiq.resources import Resources


@dataclass(frozen=True)
class Owner:
    """Who we are: `cluster` is the configured name, `head` the keyed hash that names this head node.

    ``addresses`` and ``instance_id`` are the head node's own, so that it never touches itself.
    """

    cluster: str
    head: str
    addresses: frozenset[str] = frozenset()
    instance_id: Optional[str] = None

    @property
    def mark(self) -> str:
        """The part of it by which what is ours is known."""
        return self.head[:16]

    @property
    def token_prefix(self) -> str:
        """Every ClientToken of ours begins with this (EC2 allows 64 ASCII characters)."""
        return f"elastiq-{self.mark}-"


@dataclass(frozen=True)
class Terms:
    """How a pool's machines are kept. None: as the cluster's setting of the same name says."""

    idle_for_time_s: Optional[float] = None
    estimated_vm_deploy_time_s: Optional[float] = None
    n_jobs_per_vm: Optional[int] = None
    min_idle_vms: int = 0
    priority: float = 0.0  # the higher, the sooner it is launched from
    reserve_memory_mb: float = 0.0  # of a flavour's memory, what no job gets
    reserve_disk_mb: float = 0.0
    worker_ad: tuple[str, ...] = ()
    max_vm_lifetime_s: Optional[float] = None
    idle_action: str = "terminate"  # or "stop"


@dataclass(frozen=True)
class Pool:
    """One kind of machine at one site. ``options`` are the cloud plugin's own typed values."""

    name: str
    site: str
    flavours: tuple[str, ...]
    networks: tuple[str, ...] = ("",)
    capacity: Resources = Resources()
    min_vms: int = 0
    max_vms: Optional[int] = None  # None: only the cluster's limit
    options: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    fingerprint: str = ""  # changes with anything that could change which jobs its machines run
    kind: str = ""  # of the cloud: which plugin serves its site
    # per machine and hour: "FLAVOUR/MARKET", "*/MARKET", "FLAVOUR" and "*", the nearest counts
    prices: Mapping[str, float] = field(default_factory=dict, compare=False)
    markets: tuple[str, ...] = ("",)  # "spot" and "on-demand", in the order of preference; "" is the cloud's default
    terms: Terms = Terms()
    build: str = ""  # changes with the image and the user data

    def outdates(self, build: str) -> bool:
        """Whether a machine of that build is no longer what a new one would be."""
        return build not in ("", self.build)

    def price(self, flavour: str, market: str = "") -> Optional[float]:
        """What a machine of the flavour costs an hour, in the administrator's currency; None if it is not known.
        Where the market has no price of its own, the flavour's is taken: spot then counts for more than it costs.
        What was stopped costs what it did, once it is started: it was no spot machine."""
        market = "on-demand" if market == "stopped" else market
        names = (f"{flavour}/{market}", f"*/{market}", flavour, "*")
        return next((self.prices[name] for name in names if name in self.prices), None)

    def offers(self) -> tuple[Offer, ...]:
        """Every launchable choice, in the order of preference."""
        choices = product(self.flavours, self.markets, self.networks)
        return tuple(Offer(self.name, flavour, network, market) for flavour, market, network in choices)


@dataclass(frozen=True, order=True)
class Offer:
    """One launchable choice of a pool. An empty flavour or network leaves it to the cloud."""

    pool: str
    flavour: str
    network: str = ""
    market: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.pool, self.flavour, self.network, self.market) if part)


@dataclass(frozen=True)
class Intent:
    """A launch that is about to be asked for; journalled before the call is made."""

    id: str
    token: str
    offer: Offer
    count: int
    created_at: float  # wall time
