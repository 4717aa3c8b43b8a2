"""SIGHUP and `elastiqctl reload`: go on with the configuration as it is now, if it can be used."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Mapping

from elastiq import config
from elastiq.catalogue import Catalogue
from elastiq.exits import readable_by
from elastiq.interfaces import BatchSystem, Cloud, SourceError
from elastiq.notify import notify
from elastiq.plugin_loader import plugins
from elastiq.protocol import Answer, Refused
from elastiq.settings import Settings

if TYPE_CHECKING:
    from elastiq.daemon import Daemon
    from elastiq.service import Service

log = logging.getLogger("elastiq.service")

TAKEN_S = 30.0


def reload(service: Service) -> Answer:
    """Read the configuration again. Raises `Refused`; the old settings then stay. Not on the decision thread."""
    try:
        return _reload(service)
    except Refused:
        raise
    except Exception:  # only to have it in the log: it goes on to whoever asked
        log.exception("internal fault in a reload", extra={"event": "fault"})
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
        text = "; ".join(readable_by(str(error).splitlines()))
        notice = f"refused, the old settings stay: {text}"
        log.error("reload %s", notice, extra={"event": "reload", "fields": {"reason": text}})
        events.post(lambda: daemon.core.tell("reload", notice, logging.DEBUG))
        raise Refused("config", text) from None
    finally:
        notify("READY=1")
    service.settings = settings
    events.longest_pause_s = settings.sleep_s
    events.post(lambda: daemon.core.tell("reload", ""))
    taken = threading.Event()
    events.post(lambda: daemon.core.guard("reload", lambda: take_over(daemon, settings, batch, clouds)))
    events.post(daemon.publish)
    events.post(taken.set)
    if not taken.wait(TAKEN_S):
        raise Refused("timeout", f"the configuration was read, but the loop did not take it in {TAKEN_S:g} s")
    return {}


def take_over(daemon: Daemon, settings: Settings, batch: BatchSystem, clouds: Mapping[str, Cloud]) -> None:
    """Go on with new settings and plugins. On the decision thread."""
    core = daemon.core
    core.settings, core.batch, core.clouds = settings, batch, clouds
    core.follow_sites()
    core.follow_limits()
    daemon.observer.configure()
    daemon.catalogue = Catalogue(core, daemon.plan_soon)
    daemon.follow_batch()
    daemon.follow_extras()
    daemon.fingerprint()
    core.health.blocks.clear()
    for name in ("check_vms", "check_queue"):
        daemon.advance(name)
    daemon.watch()
    core.say("reload", "configuration reloaded", reason="")
