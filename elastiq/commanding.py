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

        future.set_result(answer(daemon, args))  # in this thread: it does not wait for a loop that hangs
        return future

    def run() -> None:
        try:
            result = carry_out(daemon, verb, args)
        except Exception as error:  # noqa: BLE001 - it is raised where the client is answered
            future.set_exception(error)
        else:
            result.add_done_callback(take) if isinstance(result, Future) else give(result)

    def give(result: Answer) -> None:
        daemon.publish()  # who asks for the status next sees it
        future.set_result(result)

    def take(done: Future[Answer]) -> None:
        error = done.exception()
        give(done.result()) if error is None else future.set_exception(error)

    service.events.post(run)
    return future


def carry_out(daemon: Daemon, verb: str, args: Answer) -> Any:
    """Do it; its acts go on after that. Returns the answer, or a future of it. Raises `Refused`, or the future does.
    On the decision thread."""
    core = daemon.core
    if verb == "adopt":
        from elastiq.adoption import adopt

        return adopt(core, daemon.observer.instances, args.get("ids"), partial(daemon.advance, "check_vms"))
    if verb == "history":
        from elastiq.history import answer

        return answer(core.store)
    if verb == "terminate":
        from elastiq.by_force import terminate

        return terminate(daemon, args)
    if verb in ("drain", "undrain"):
        from elastiq import by_hand

        return (by_hand.drain if verb == "drain" else by_hand.undrain)(daemon, args)
    daemon.plan_soon()
    if verb in ("drain-pool", "undrain-pool"):
        from elastiq import pool_service

        return pool_service.change(core, verb, args, daemon.observer.ending.back)
    if verb in ("pause", "resume"):
        from elastiq import pausing

        return pausing.change(core, verb, args)
    if verb == "scale":
        from elastiq import scaling

        return scaling.change(core, args)
    raise Refused("unknown-verb", f"`{verb}` is not a command of elastiq {__version__}")
