"""Taking a pool out of service, and back: `elastiqctl drain-pool` and `undrain-pool`. It outlives a restart."""

from __future__ import annotations

from typing import Any, Mapping

from elastiq.control import Refused
from elastiq.core import Core

VERBS = ("drain-pool", "undrain-pool")


def change(core: Core, verb: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out one of VERBS; the next plan does what follows from it."""
    name, names = args.get("pool"), sorted(pool.name for pool in core.settings.pools)
    if name not in names and not (verb == "undrain-pool" and name in core.drained):
        raise Refused("no-such-pool", f"there is no pool `{name}`, the pools are {', '.join(names)}")
    drained = {*core.drained, name} if verb == "drain-pool" else core.drained - {name}
    if not core.stored(lambda: core.store.remember("drained", sorted(drained))):
        raise Refused("failed", "the store cannot be written: nothing was changed")
    core.drained = frozenset(drained)
    core.record(verb, "", str(name), "a person asked for it")
    told = ", ".join(sorted(drained))
    core.tell("pools out of service", f"{told}: nothing is launched there, and what is idle there ends" if told else "")
    return {"drained": sorted(drained)}
