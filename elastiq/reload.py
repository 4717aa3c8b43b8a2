"""SIGHUP and `elastiqctl reload`: go on with the configuration as it is now, if it can be used."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from elastiq import config
from elastiq.control import Answer, Refused
from elastiq.interfaces import SourceError
from elastiq.notify import notify
from elastiq.plugin_loader import plugins

if TYPE_CHECKING:
    from elastiq.service import Service

log = logging.getLogger("elastiq.service")


def reload(service: Service) -> Answer:
    """Read the configuration again. Raises `Refused`; the old settings then stay. Not on the decision thread."""
    try:
        return _reload(service)
    except Refused:
        raise
    except Exception:  # only to have it in the log: it goes on to whoever asked
        log.exception("internal fault in a reload")
        raise


def _reload(service: Service) -> Answer:
    daemon, events = service.daemon, service.events
    if daemon is None or daemon.stopping:
        raise Refused("impossible", "elastiq is still starting, or it ends")
    notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
    try:
        loaded = config.load(service.paths.config)
        settings = loaded.settings
        if settings.cluster_name != service.settings.cluster_name:
            raise config.ConfigError(["cluster_name cannot change while elastiq runs: restart it"])
        batch, clouds = plugins(settings, service.owner)
        service.begin_log(loaded, "configuration read again")
    except (config.ConfigError, SourceError, OSError) as error:
        text = "; ".join(str(error).splitlines())
        notice = f"refused, the old settings stay: {text}"
        log.error("reload %s", notice)
        events.post(lambda: daemon.core.tell("reload", notice, logging.DEBUG))
        raise Refused("config", text) from None
    finally:
        notify("READY=1")
    service.settings = settings
    events.longest_pause_s = settings.sleep_s
    events.post(lambda: daemon.core.tell("reload", ""))
    events.post(lambda: daemon.core.guard("reload", lambda: daemon.reload(settings, batch, clouds)))
    return {}
