"""Numbers in sentences for people."""

from __future__ import annotations


def counted(number: float, noun: str) -> str:
    """`1 job`, `2 jobs`, `0.5 cpus`; a unit in capitals has no plural: `2 MB`."""
    return f"{number:.10g} {noun}{'' if number == 1 or noun.isupper() else 's'}"
