"""What elastiqctl asks for over the control socket, but for the status. Imported with the first command."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from elastiq.control import Answer

if TYPE_CHECKING:
    from elastiq.service import Service


def start(service: Service, verb: str, args: Answer) -> Future[Answer]:
    """Hand a command over to the loop, or a reload to the thread for it. From any thread."""
    if verb == "reload":
        return service.reloads.submit(service.reload)
    daemon, future = service.daemon, Future[Answer]()
    assert daemon is not None  # before there is a socket

    def run() -> None:
        try:
            future.set_result(daemon.command(verb, args))
        except Exception as error:  # noqa: BLE001 - it is raised where the client is answered
            future.set_exception(error)

    service.events.post(run)
    return future
