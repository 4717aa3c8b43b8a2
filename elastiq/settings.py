"""The typed settings that the rest of the daemon sees; `elastiq.config` makes them from a file.

Times are seconds. Everything here is immutable: a reload makes a new object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

from elastiq.interfaces import Pool


@dataclass(frozen=True)
class Settings:
    """One cluster's settings, validated. The defaults are elastiq 1.0's where it had the key."""

    cluster_name: str
    pools: tuple[Pool, ...] = ()

    # [elastiq]
    sleep_s: float = 5.0
    check_queue_every_s: float = 15.0
    check_vms_every_s: float = 45.0
    check_vms_in_error_every_s: float = 20.0
    estimated_vm_deploy_time_s: float = 600.0
    waiting_jobs_threshold: int = 0
    waiting_jobs_time_s: float = 40.0
    n_jobs_per_vm: int = 4
    idle_for_time_s: float = 3600.0
    drain_timeout_s: float = 300.0
    lost_after_s: float = 900.0
    batch_settle_s: float = 600.0
    unused_room_s: float = 300.0
    intent_settle_s: float = 600.0
    static_workers: tuple[str, ...] = ()
    batch_plugin: str = "htcondor"
    log_level: str = "info"
    log_format: str = "text"

    # [quota]
    min_vms: int = 0
    max_vms: Optional[int] = 3  # None: unlimited
    quota_counts: str = "owned"  # or "all"
    max_launches_per_hour: Optional[int] = None  # None: as many as the quotas allow
    max_cost_per_hour: Optional[float] = None
    max_cost_per_day: Optional[float] = None

    # [debug]
    dry_run_boot_vms: bool = False
    dry_run_shutdown_vms: bool = False

    # the batch plugin's section, typed by its own declarations
    batch_options: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def pool(self, name: str) -> Optional[Pool]:
        """The pool of that name, None if the configuration has none (any more)."""
        return next((pool for pool in self.pools if pool.name == name), None)

    @property
    def sites(self) -> Mapping[str, tuple[Pool, ...]]:
        """The pools of each site, in the order of the file."""
        found: dict[str, tuple[Pool, ...]] = {}
        for pool in self.pools:
            found[pool.site] = (*found.get(pool.site, ()), pool)
        return found
