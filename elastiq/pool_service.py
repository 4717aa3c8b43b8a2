"""Taking a pool out of service, and back: `elastiqctl drain-pool` and `undrain-pool`. It outlives a restart."""

from __future__ import annotations

import logging
from typing import Any, Callable, Mapping

from elastiq.core import Core
from elastiq.nodes import Node, State
from elastiq.protocol import Refused


def change(core: Core, verb: str, args: Mapping[str, Any], back: Callable[[Node, str], object]) -> dict[str, Any]:
    """Carry out ``drain-pool`` or ``undrain-pool``; the next plan does what follows from it. ``back`` returns a node to
    service. Raises `Refused`."""
    name, names = args.get("pool"), [pool.name for pool in core.settings.pools]
    if not isinstance(name, str):
        raise Refused("malformed", '"pool" is the name of a pool')
    if name not in names and not (verb == "undrain-pool" and name in core.drained):
        raise Refused("impossible", f"there is no pool `{name}`; there are {', '.join(names)}")
    drained = core.drained | {name} if verb == "drain-pool" else core.drained - {name}
    if drained != core.drained:
        if not core.stored(lambda: core.store.remember("drained", sorted(drained))):
            raise Refused("impossible", "the state cannot be written (see elastiqctl status): nothing was changed")
        core.drained = drained
        core.record(verb, "", name, f"elastiqctl {verb}")
        what = f"pool {name}: {'out of' if name in drained else 'back in'} service"
        for node in core.registry if verb == "undrain-pool" else ():
            if node.pool == name and node.state is State.DRAINING and node.reason == f"pool {name} is being drained":
                back(node, "elastiqctl undrain-pool")
        core.say("command", f"{what}, as a person asked for", logging.WARNING, verb=verb, pool=name, reason=what)
    return {"drained": sorted(drained)}
