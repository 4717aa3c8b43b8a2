"""Metrics for Prometheus (docs/metrics.md): at the port that [metrics] names, and by `elastiqctl metrics` always.

Imported when the section is there, or when somebody asks. Nothing is counted for them before.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Mapping, Optional

from elastiq.options import Kind, Option

if TYPE_CHECKING:
    from elastiq.daemon import Daemon
    from elastiq.metrics.families import Values

WAIT_S = 1.0  # for the loop; then what was published last is given


def check_listen(text: str) -> str:
    """A complaint about what is no address to listen on, or an empty string."""
    from elastiq.web.server import address_of

    try:
        address_of(text)
    except ValueError as error:
        return str(error).replace(":8642", ":9797")
    return ""


def how_to_install() -> str:
    """What makes prometheus-client importable here: an environment of its own does not see the system's packages."""
    if sys.prefix != sys.base_prefix:
        return f"{sys.prefix}/bin/pip install prometheus-client (or, in elastiq's source, '.[metrics]')"
    return "install python3-prometheus-client (EL: python3-prometheus_client)"


OPTIONS = (Option("listen", Kind.TEXT, required=True, check=check_listen),)


def follow(daemon: Daemon, values: Optional[Mapping[str, Any]]) -> None:
    """Serve at the address that the section names now; None: nowhere. On the decision thread."""
    from elastiq.metrics.meter import meter_of

    meter_of(daemon).listen(values["listen"] if values is not None else None)


def answer(daemon: Daemon, args: Mapping[str, Any]) -> dict[str, Any]:
    """For `elastiqctl metrics`: Prometheus' text, or objects for ``{"format": "json"}``. From any other thread. Raises
    `Refused` if the loop does not answer, and has published nothing yet."""
    from elastiq.metrics.families import objects, text

    values = _values(daemon)
    return {"families": objects(values)} if args.get("format") == "json" else {"text": text(values)}


def _values(daemon: Daemon) -> Values:
    import threading

    from elastiq.metrics.meter import Meter, meter_of
    from elastiq.protocol import Refused

    done, found = threading.Event(), list[Meter]()

    def find() -> None:
        daemon.core.guard("metrics", lambda: found.append(meter_of(daemon)))
        done.set()

    meter = next((one for one in daemon.core.listeners if isinstance(one, Meter)), None)
    if meter is None:
        daemon.core.events.post(find)
        if not done.wait(WAIT_S) or not found:
            raise Refused("timeout", "the decision loop does not answer, and nobody had asked for metrics before")
        return found[0].read()
    return meter.fresh(WAIT_S)
