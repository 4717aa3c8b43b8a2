"""What the sections [hooks], [metrics] and [web] ask for. Imported only for a configuration that has one of them.

Each has a module of its name with the keys of its section, ``OPTIONS``, and ``follow(daemon, values)``, which is
called on the decision thread at the start and after each reload, with None where the section is gone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from elastiq.options import Option

if TYPE_CHECKING:
    from elastiq.daemon import Daemon


def _module(section: str) -> Any:
    return importlib.import_module(f"elastiq.{section}")


def options_of(section: str) -> tuple[Option, ...]:
    """The keys of a section."""
    options: tuple[Option, ...] = _module(section).OPTIONS
    return options


def follow(daemon: Daemon) -> None:
    """Begin, go on with or end what the sections ask for. On the decision thread."""
    wanted = daemon.core.settings.extras
    for section in sorted(wanted.keys() | daemon.extras):
        _module(section).follow(daemon, wanted.get(section))
    daemon.extras = frozenset(wanted)
