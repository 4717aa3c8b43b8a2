"""What can be found wrong with a Slurm before the first launch: `elastiqctl check`. Only reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastiq.interfaces import Looks

if TYPE_CHECKING:
    from elastiq.plugins.batch.slurm import Slurm


def looks(slurm: Slurm) -> Looks:
    return {}
