"""What is wrong with a pool's market. Imported only for a configuration that names some."""

from __future__ import annotations

from typing import Sequence

from elastiq.inifile import Problems, Section
from elastiq.interfaces import Terms


def check_markets(
    section: Section, site: str, asked: Sequence[str], there: Sequence[str], terms: Terms, problems: Problems
) -> None:
    """A market that the site does not have would be refused at every launch, or be ignored and paid in full."""
    for market in (one for one in asked if one not in there):
        problems.at(section.name, "market", f"names {market}, which the site {site} does not have, remove it")
    if "spot" in asked and terms.idle_action == "stop":
        text = "cannot be stop for spot machines, which cannot be stopped, write terminate"
        problems.at(section.name, "idle_action", text)
