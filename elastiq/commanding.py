"""What elastiqctl asks for over the control socket, but for the status. Imported with the first command."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from elastiq import __version__
from elastiq.protocol import Answer, Refused

if TYPE_CHECKING:
    from elastiq.daemon import Daemon
    from elastiq.service import Service


def start(service: Service, verb: str, args: Answer) -> Future[Answer]:
    """Hand a command over to the loop, or a reload to the thread for it. From any thread."""
    if verb == "reload":
        return service.reloads.submit(service.reload)
    daemon, future = service.daemon, Future[Answer]()
    assert daemon is not None  # before there is a socket
    if verb == "metrics":
        from elastiq.metrics import answer

        future.set_result(answer(daemon))  # in this thread: it does not wait for a loop that hangs
        return future

    def run() -> None:
        try:
            result = carry_out(daemon, verb, args)
            daemon.publish()  # who asks for the status next sees it
            future.set_result(result)
        except Exception as error:  # noqa: BLE001 - it is raised where the client is answered
            future.set_exception(error)

    service.events.post(run)
    return future


def carry_out(daemon: Daemon, verb: str, args: Answer) -> dict[str, Any]:
    """Do it; its acts go on after that. Raises `Refused`. On the decision thread."""
    if verb == "adopt":
        from elastiq.adoption import adopt

        return adopt(daemon.core, daemon.observer.instances, args.get("ids"), partial(daemon.advance, "check_vms"))
    if verb in ("drain-pool", "undrain-pool"):
        from elastiq.pool_service import change

        daemon.plan_soon()
        return change(daemon.core, verb, args)
    raise Refused("unknown-verb", f"`{verb}` is not a command of elastiq {__version__}")
