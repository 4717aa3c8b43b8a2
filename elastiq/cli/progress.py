"""How far a long piece of work is: one line on standard error that is drawn over and over, on a terminal only."""

from __future__ import annotations

import sys
import time
from typing import Optional

from elastiq.cli.style import cut, width_of
from elastiq.cli.table import duration

BAR = 20  # columns
DRAW_EVERY_S = 0.1
SURE = 0.02  # below this part, what is left cannot be told


class Progress:
    """A context; outside it, and where standard error is no terminal, nothing is shown."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._began = self._drawn = time.monotonic()
        self._drawn = float("-inf")
        self._line = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, part: float, text: str) -> None:
        """``part`` of all is done, 0 to 1; ``text`` says what is being done."""
        now = time.monotonic()
        if not self._shown or now - self._drawn < DRAW_EVERY_S:
            return
        self._drawn = now
        done = min(1.0, max(0.0, part))
        left = f"  {duration((now - self._began) * (1.0 - done) / done)} left" if SURE <= done < 1.0 else ""
        filled = int(done * BAR)
        line = f"[{'#' * filled}{'.' * (BAR - filled)}] {100 * done:3.0f} %  {text}{left}"
        self._write(cut(line, width_of(sys.stderr) - 1))

    def clear(self) -> None:
        """Leave the line empty, for what is printed next."""
        if self._line:
            self._write("")

    def say(self, text: str) -> None:
        """A line that stays, only where somebody looks on."""
        if self._shown:
            self.clear()
            print(text, file=sys.stderr)

    def begin(self, began: Optional[float] = None) -> None:
        """Another piece of work begins: what is left is told of that one."""
        self._began = time.monotonic() if began is None else began

    def _write(self, line: str) -> None:
        sys.stderr.write(f"\r{line}\033[K")
        sys.stderr.flush()
        self._line = line
