"""What the checks of a plugin find, by their subjects: each look made by itself, one after the other."""

from __future__ import annotations

from elastiq.conformance import found as found
from elastiq.interfaces import Check, Looks


def by_subject(looks: Looks) -> dict[str, Check]:
    """The worst of each subject."""
    order = ("ok", "unknown", "warning", "error")
    return {check.subject: check for check in sorted(found(looks), key=lambda check: order.index(check.level))}


def levels(looks: Looks) -> dict[str, str]:
    return {subject: check.level for subject, check in by_subject(looks).items()}
