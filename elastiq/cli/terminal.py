"""A terminal as a screen of its own: drawn whole and without flicker, keys read one by one, and given back as it was,
also when the program is stopped, suspended or fails.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from types import FrameType, TracebackType
from typing import Any, Optional, Sequence, Union

# xterm's control sequences, which every terminal of today knows: another screen and back, cursor off and on.
_ENTER, _LEAVE = "\033[?1049h\033[?25l\033[2J", "\033[?25h\033[?1049l"
_KEYS = {
    "\033[A": "up", "\033[B": "down", "\033OA": "up", "\033OB": "down", "k": "up", "j": "down",
    "\033[5~": "page up", "\033[6~": "page down",
    "\033[H": "home", "\033[F": "end", "\033OH": "home", "\033OF": "end", "\033[1~": "home", "\033[4~": "end",
    "g": "home", "G": "end",
}  # fmt: skip


class Terminal:
    """A context: within it, `draw` and `key`. Both standard input and output must be terminals."""

    def __init__(self) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._before: list[Any] = []
        self._handlers: dict[signal.Signals, Any] = {}
        self._wakes, self._wake = -1, -1

    def __enter__(self) -> Terminal:
        self._before = termios.tcgetattr(self._in)
        self._wakes, self._wake = os.pipe()  # a change of the size, or a return from Ctrl-Z, ends the wait for a key
        os.set_blocking(self._wake, False)
        for number in (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
            self._handlers[number] = signal.signal(number, self._signalled)
        self._begin()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._end()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._wakes)
        os.close(self._wake)

    def _begin(self) -> None:
        tty.setcbreak(self._in)  # Ctrl-C and Ctrl-Z stay what they are
        self._write(_ENTER)

    def _end(self) -> None:
        termios.tcsetattr(self._in, termios.TCSADRAIN, self._before)
        self._write(_LEAVE)

    def _signalled(self, number: int, at: Optional[FrameType]) -> None:
        if number in (signal.SIGTERM, signal.SIGHUP):
            raise SystemExit(128 + number)  # through __exit__
        if number == signal.SIGTSTP:
            self._end()
            os.kill(os.getpid(), signal.SIGSTOP)  # goes on here when it is continued
            self._begin()
        try:
            os.write(self._wake, b"\0")
        except BlockingIOError:
            pass  # it is awake already

    def draw(self, lines: Sequence[str]) -> None:
        """Replace what is shown: each line over the one before, so that nothing is ever blank in between."""
        self._write("\033[H" + "\r\n".join(f"{line}\033[K" for line in lines) + "\033[J")

    def key(self, within_s: float) -> Union[str, None]:
        """The name of the key that is pressed, or the letter itself; "" for what changes the screen; None if there is
        none in time. EOFError if the terminal is gone."""
        ready, _, _ = select.select([self._in, self._wakes], [], [], max(0.0, within_s))
        if self._wakes in ready:
            os.read(self._wakes, 1000)
            return ""
        if not ready:
            return None
        typed = os.read(self._in, 32).decode("utf-8", "replace")
        if not typed:
            raise EOFError
        return _KEYS.get(typed, typed[0])

    def _write(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding or "utf-8", "replace")
        while data:
            data = data[os.write(self._out, data) :]
