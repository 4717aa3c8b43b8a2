"""What an EC2 machine has, by its name: a convenience where nobody says it, for names that follow the rule.

The general, compute and memory families of the fifth generation on have 4, 2 and 8 GiB for each vCPU; a `large` has 2
of these, an `xlarge` 4, an `Nxlarge` 4 N. What does not follow it is left out, so that it is asked for: older
generations, GPUs, bare metal, c5n (2.6 GiB), t2. The figures are those of Amazon's instance type guides (general
purpose, compute and memory optimized).
"""

from __future__ import annotations

from typing import Optional

from elastiq.interfaces import Resources

_GIB = 1024.0
_PER_VCPU = {"c": 2.0, "m": 4.0, "r": 8.0}  # GiB
_FAMILIES = frozenset(
    """
    c5 c5a c5ad c5d c6a c6g c6gd c6gn c6i c6id c6in c7a c7g c7gd c7gn c7i c7i-flex c8g c8gd
    m5 m5a m5ad m5d m5dn m5n m5zn m6a m6g m6gd m6i m6id m6idn m6in m7a m7g m7gd m7i m7i-flex m8g m8gd
    r5 r5a r5ad r5b r5d r5dn r5n r6a r6g r6gd r6i r6id r6idn r6in r7a r7g r7gd r7i r7iz r8g r8gd
    """.split()
)
_WITH_MEDIUM = ("g", "gd", "gn", "7a")  # how the families end whose smallest machine has 1 vCPU
_VCPUS = {"large": 2, "xlarge": 4, **{f"{n}xlarge": 4 * n for n in (2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 32, 48)}}
_BURSTABLE = ("t3", "t3a", "t4g")
_OF_BURSTABLE = {  # vCPUs and GiB
    "nano": (2, 0.5), "micro": (2, 1), "small": (2, 2), "medium": (2, 4), "large": (2, 8), "xlarge": (4, 16),
    "2xlarge": (8, 32),
}  # fmt: skip


def size_by_name(name: str) -> Optional[Resources]:
    """Of `c5.xlarge`: 4 cores and 8 GiB. None where the name does not tell."""
    family, _, size = name.partition(".")
    if family in _BURSTABLE and size in _OF_BURSTABLE:
        vcpus, gib = _OF_BURSTABLE[size]
        return Resources(float(vcpus), gib * _GIB)
    if family not in _FAMILIES:
        return None
    cpus = 1 if size == "medium" and family.endswith(_WITH_MEDIUM) else _VCPUS.get(size)
    return Resources(float(cpus), cpus * _PER_VCPU[family[0]] * _GIB) if cpus else None
