"""The plugins for Torque and PBS Pro over their fake commands, in processes of their own or, where that would be too
many of them, in this one."""

from __future__ import annotations

from functools import partial
from typing import Any, Optional

from elastiq.command import CommandResult
from elastiq.interfaces import Owner
from elastiq.plugins.batch.pbs import PBS
from elastiq.plugins.batch.tools import Tools
from tests.integration.fake_pbs import FakePBS, in_process

OWNER = Owner("test", "0123456789abcdef0123")
MARK = OWNER.head[:16]


def plugin_over(server: FakePBS, plugin: type[PBS], processes: bool = False, /, **values: Any) -> PBS:
    """The plugin with its defaults and these values. ``server.bin`` must be the first on the PATH."""
    given = {option.name: option.default for option in plugin.OPTIONS}
    batch = plugin.from_config({**given, "command_timeout_s": 20.0, **values}, OWNER)
    if not processes:
        batch.tools.run = partial(_run, server, batch)  # type: ignore[method-assign]
        batch.addresses.tools.run = partial(_run, server, batch)  # type: ignore[method-assign]
    return batch


def _run(
    server: FakePBS, batch: PBS, tool: str, *args: str, stdin: bytes = b"", timeout_s: Optional[float] = None
) -> CommandResult:
    if any(order.read_text() == "hang" for order in server.folder.glob("next-*")):  # what hangs is killed
        return Tools.run(batch.tools, tool, *args, stdin=stdin, timeout_s=timeout_s)
    code, out, err = in_process(server.folder, server.system, tool, args)
    return CommandResult(code, out.encode(), err.encode())
