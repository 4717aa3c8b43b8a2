"""What is told of bugs in elastiq and its plugins, and of a store that cannot be written. Imported only then."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

log = logging.getLogger("elastiq")

if TYPE_CHECKING:
    from elastiq.core import Core
    from elastiq.nodes import Move
    from elastiq.store import StoreError


def caught(core: Core, name: str, error: Exception) -> None:
    """What a piece of the loop raised. In an `except`: the traceback is logged, once for each."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    fault = f"{name}: {type(error).__name__} at {where.name}:{where.lineno}"
    core.faults[fault] += 1
    core.count("handler_faults")
    new = core.faults[fault] == 1
    text = f"{fault}: {'this is a bug in elastiq; the loop goes on' if new else 'once more'}"
    log.error("%s", text, exc_info=new, extra={"event": "fault", "fields": {"reason": fault}})


def of_plugin(core: Core, error: BaseException) -> str:
    """What is no `SourceError` or deadline is a plugin's bug, and said so."""
    core.count("plugin_faults")
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    core.tell_once(f"fault {type(error).__name__}", f"a plugin failed in a way it should not:\n{text}")
    return f"{type(error).__name__}: {error}"


def illegal(core: Core, move: Move) -> None:
    """A transition that the table does not have; it was not made."""
    core.count("illegal_transitions")
    text = f"{move.node.name}: illegal transition {move.before.value} -> {move.after.value} ({move.reason})"
    core.say("fault", text, logging.ERROR, reason=text)


def of_store(core: Core, error: StoreError) -> None:
    core.count("store_errors")
    core.store_broken = True
    core.tell("store", f"{error}: nothing is launched until it can be written")
