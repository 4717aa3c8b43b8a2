"""Stands between the daemon and one of the batch system's commands, so that a test can act at that very moment.

The command found first on the daemon's PATH tells the test what it was called with, does what the
test answers, and tells it the outcome before it returns. The test's handlers run meanwhile: what they start
has started when the command goes on.
"""

from __future__ import annotations

import json
import socketserver
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Optional

from tests.e2e.rig import places

_WRAPPER = """#!{python} -IS
import json, socket, subprocess, sys

def tell(**message):
    with socket.socket(socket.AF_UNIX) as tap:
        tap.connect({socket!r})
        tap.sendall(json.dumps(message).encode() + b"\\n")
        return json.loads(tap.makefile().readline())

argv = tell(tool={tool!r}, argv=sys.argv[1:])
done = subprocess.run([{program!r}, *argv], stdout=subprocess.PIPE)
tell(tool={tool!r}, argv=argv, code=done.returncode, output=done.stdout.decode(errors="replace"))
sys.stdout.buffer.write(done.stdout)
sys.exit(done.returncode)
"""

Before = Callable[[list[str]], Optional[list[str]]]
After = Callable[[list[str], int, str], None]


class Tap:
    """Taps on some commands. A handler ``before`` may return other arguments; None leaves them.

    Handlers run on threads, several at once if the daemon runs several commands at once.
    """

    def __init__(self, directory: Path, tools: Optional[Path] = None) -> None:
        """``tools``: where the commands are; else HTCondor's."""
        self.directory, self._tools = directory, tools or places.tools()
        directory.mkdir(parents=True, exist_ok=True)
        self.failures: list[BaseException] = []
        self._before: dict[str, Before] = {}
        self._after: dict[str, After] = {}
        path = directory / "tap.sock"
        path.unlink(missing_ok=True)
        self._server = _Server(str(path), _Handler)
        self._server.tap = self
        path.chmod(0o777)  # the daemon's user connects to it
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def on(self, tool: str, before: Optional[Before] = None, after: Optional[After] = None) -> None:
        """Set what happens at each call of this command."""
        if before is not None:
            self._before[tool] = before
        if after is not None:
            self._after[tool] = after
        wrapper = self.directory / tool
        values = {"tool": tool, "program": str(self._tools / tool), "socket": str(self.directory / "tap.sock")}
        wrapper.write_text(_WRAPPER.format(python=sys.executable, **values))
        wrapper.chmod(0o755)

    def answer(self, message: dict[str, Any]) -> list[str]:
        """What the wrapper's message leads to."""
        tool, argv = message["tool"], message["argv"]
        try:
            if "code" in message:
                if tool in self._after:
                    self._after[tool](argv, message["code"], message["output"])
            elif tool in self._before:
                changed = self._before[tool](argv)
                argv = argv if changed is None else changed
        except BaseException as error:  # noqa: BLE001  (a thread's; the test raises it in `close`)
            self.failures.append(error)
        return list(argv)

    def close(self) -> None:
        """Raise what a handler raised."""
        self._server.shutdown()
        self._server.server_close()
        if self.failures:
            raise self.failures[0]


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64
    tap: Tap


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        message = json.loads(self.rfile.readline())
        self.wfile.write(json.dumps(self.server.tap.answer(message)).encode() + b"\n")
