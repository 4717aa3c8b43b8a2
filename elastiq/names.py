"""Names that elastiq itself does not have: plugins of third parties, and what was most likely meant.

Imported only for such a name.
"""

from __future__ import annotations

import difflib
from importlib.metadata import distributions
from typing import Iterable, Mapping

from elastiq.inifile import Entry, Problems
from elastiq.options import Option


def third_parties(group: str) -> dict[str, str]:
    """Where each plugin of an entry-point group is to be found. As with imports, the first one counts."""
    found = [point for dist in distributions() for point in dist.entry_points if point.group == group]
    return {point.name: point.value for point in reversed(found)}


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that was most likely meant, empty if none is near."""
    return next(iter(difflib.get_close_matches(name.lower(), sorted(known), 1)), "")


def hint(name: str, known: Iterable[str], form: str = "`{}`") -> str:
    """For a complaint about an unknown name: the one that was most likely meant, else all."""
    meant = nearest(name, known)
    return f"did you mean {form.format(meant)}?" if meant else f"known are: {', '.join(known)}"


def unknown_key(entry: Entry, known: Iterable[str], core: Mapping[str, Iterable[Option]], problems: Problems) -> None:
    """Complain of a key that its section does not have; ``core`` has those of the other sections."""
    home = next((name for name, options in core.items() if entry.key in {one.name for one in options}), None)
    meant = nearest(entry.key, known)
    what = f"it belongs to [{home}]" if home else f"did you mean `{meant}`?" if meant else "remove it"
    problems.add(entry.line, entry.section, entry.key if meant else entry.label, f"is not a known key, {what}")
