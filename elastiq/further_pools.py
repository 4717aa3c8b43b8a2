"""Pools beside the first: what [kind:NAME] has from [kind], and what two pools cannot have together.

Imported only for a configuration with a section [kind:NAME] or several pools.
"""

from __future__ import annotations

import re
from typing import Iterable, Mapping

from elastiq.inifile import Problems, Section
from elastiq.interfaces import Pool
from elastiq.options import Option


def inherit(base: Section, own: Section, options: Iterable[Option], problems: Problems) -> Section:
    """A pool's section with what it inherits: a key of its own replaces also those that exclude it."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", own.name.partition(":")[2]):
        problems.at(own.name, "", "a pool's name is made of letters, digits, `_`, `.` and `-`, rename it")
    replaced = {other for option in options if option.name in own.entries for other in option.excludes}
    replaced |= {option.name for option in options if own.entries.keys() & option.excludes}
    if "flavour" in own.entries and (price := base.entries.get("price")) and "=" not in price.value:
        replaced.add("price")  # one price for all was that of other flavours
    inherited = {key: entry for key, entry in base.entries.items() if key not in replaced}
    return Section(own.name, own.line, {**inherited, **own.entries})


def check_beside(
    section: str, pool: Pool, others: Mapping[str, Pool], options: Iterable[Option], problems: Problems
) -> None:
    """Two pools of one name, or of one site that they describe differently. ``others`` are by section."""
    if pool.name in (other.name for other in others.values()):
        problems.at(section, "", f"there is another pool `{pool.name}`, rename one")
    site = (pool.kind, pool.site)
    home = next((home for home, other in others.items() if (other.kind, other.site) == site), None)
    for option in options if home else ():
        if option.site and pool.options[option.name] != others[home or ""].options[option.name]:
            same = f"but both are the site {pool.site}, give both the same"
            problems.at(section, option.name, f"differs from [{home}], {same}")
