"""`elastiqctl adopt`: take over what a head node that is gone for good left to this cluster."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Mapping

from elastiq.core import Core
from elastiq.executor import Outcome
from elastiq.interfaces import Instances
from elastiq.observations import Observation
from elastiq.protocol import Refused


def adopt(
    core: Core, listings: Mapping[str, Observation[Instances]], ids: Any, then: Callable[[], object]
) -> dict[str, Any]:
    """List another head's instances of this cluster; take over those of them that are named, and call ``then``
    when a site has done it. Raises `Refused`. On the decision thread."""
    found = {
        instance.id: site
        for site, seen in listings.items()
        if seen.value is not None
        for instance in seen.value.other_heads
    }
    if ids is None:
        return {"instances": list(found)}
    if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
        raise Refused("malformed", '"ids" is a list of instance ids')
    strangers = [name for name in ids if name not in found]
    if strangers:
        names = ", ".join(strangers)
        raise Refused("impossible", f"no such instance of another head node (any more), nothing adopted: {names}")

    def adopted(outcome: Outcome[None]) -> None:
        core.tell("adopt", core.explain(outcome.error) if outcome.error else "")
        then()

    for site in dict.fromkeys(found[name] for name in ids):
        named = [name for name in ids if found[name] == site]
        core.act_on_cloud(site, "adopt", partial(core.clouds[site].adopt, named), adopted)
    for name in ids:
        core.record("adopt", name, "", "elastiqctl adopt")
    return {"adopted": ids}
