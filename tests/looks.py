"""What the checks of a plugin find, by their subjects: each look made by itself, one after the other."""

from __future__ import annotations

from typing import Iterable

from elastiq.interfaces import Check, Looks, SourceError


def found(looks: Looks) -> list[Check]:
    """Everything; a look that finds nothing out is unknown."""
    return [check for subject, look in looks.items() for check in _made(subject, look)]


def _made(subject: str, look: object) -> Iterable[Check]:
    assert callable(look)
    try:
        return list(look())
    except SourceError as error:
        return [Check(subject, "unknown", str(error))]


def by_subject(looks: Looks) -> dict[str, Check]:
    """The worst of each subject."""
    order = ("ok", "unknown", "warning", "error")
    return {check.subject: check for check in sorted(found(looks), key=lambda check: order.index(check.level))}


def levels(looks: Looks) -> dict[str, str]:
    return {subject: check.level for subject, check in by_subject(looks).items()}
