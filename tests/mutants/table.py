"""The table: what is planted, and which invariant is to catch it."""

from __future__ import annotations

from tests.mutants import of_ends, of_launches, of_looks, of_records
from tests.mutants.planting import Mutant

MUTANTS: tuple[Mutant, ...] = (*of_launches.MUTANTS, *of_looks.MUTANTS, *of_ends.MUTANTS, *of_records.MUTANTS)
