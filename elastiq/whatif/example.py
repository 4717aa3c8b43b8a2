"""A week of jobs to try the simulation with: nobody's, but such as a published model draws them."""

from __future__ import annotations

from elastiq.whatif.synthetic import LublinFeitelson

JOBS = 2000
WORDS = f"an example of {JOBS:,} jobs, drawn from the model of Lublin and Feitelson (2003)"


def example(seed: int = 1) -> LublinFeitelson:
    """Jobs of 1 to 8 cores, more by day than by night."""
    return LublinFeitelson(seed, JOBS, largest=8, stretch=0.25)
