"""What a listing shows beside what was known: another head's machines, or ours after the state was lost. Imported when
there is something.
"""

from __future__ import annotations

from elastiq.core import Core
from elastiq.interfaces import Instances


def tell(core: Core, site: str, view: Instances, lost: bool) -> None:
    """Keep notices of it. ``lost``: the state was new, and does not know machines of ours."""
    if lost:
        core.lost_until, core.store_is_new = core.now() + core.settings.intent_settle_s, False
        core.tell("state", "it does not know machines of ours that the cloud lists: it was lost")
        if core.ledger:
            core.ledger.found(view.owned, core.wall())
    names = sorted(instance.id for instance in view.other_heads)
    what = f"but another head node's id ({len(names)}: {', '.join(names[:10])}): not touched"
    text = f"instances with this cluster's name {what}; elastiqctl adopt takes them over"
    core.tell(f"other heads at {site}", text if names else "")
