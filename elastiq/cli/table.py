"""Text for a terminal: aligned columns, colour where it is wanted, nothing that a name could smuggle in."""

from __future__ import annotations

from typing import Sequence

from elastiq.cli.style import clean as clean
from elastiq.cli.style import columns, cut, pad, paint, wants_colour, width_of, wrap

_GAP = "  "
_NARROWEST = 10  # what is narrower cannot be read beside the other columns
_LEAST = 30  # a last column of sentences that is narrower is hard to read


class Screen:
    """What standard output can show. ``width`` is in characters: without a terminal, as wide as it takes."""

    def __init__(self) -> None:
        self.colour, self.width = wants_colour(), width_of()

    def paint(self, text: str, style: str) -> str:
        return paint(text, style, self.colour)

    def line(self, text: str, style: str = "") -> str:
        """A sentence, wrapped where it is too long."""
        lines = wrap(clean(text), self.width, indent="    ")
        return "\n".join(self.paint(line, style) for line in lines)

    def table(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        styles: Sequence[str] = (),
        spare: str = "",
        wrapped: bool = True,
    ) -> list[str]:
        """Columns under their names; ``styles`` has one for each row. Where it is too narrow, the columns
        named in ``spare`` go first, in that order, and the last column is ``wrapped``, below the others if need be, or
        cut."""
        cells = [[clean(cell) for cell in row] for row in rows]
        widths = [max(columns(row[i]) for row in [head, *cells]) for i in range(len(head))]
        shown = [i for i in range(len(head)) if any(row[i] for row in cells)]

        def left() -> int:
            return self.width - sum(widths[i] + len(_GAP) for i in shown[:-1])

        for name in spare.split():
            if left() < min(widths[shown[-1]], _LEAST):
                shown = [i for i in shown if head[i] != name]

        below = wrapped and left() < min(widths[shown[-1]], _NARROWEST)

        def text(row: Sequence[str], style: str) -> list[str]:
            first = "".join(pad(row[i], widths[i]) + _GAP for i in shown[:-1])
            if below:
                lines = [first, *(_GAP * 2 + part for part in wrap(row[shown[-1]], max(self.width - 4, 1)) if part)]
            else:
                last = wrap(row[shown[-1]], left()) if wrapped else [row[shown[-1]]]
                lines = [first + last[0], *(" " * len(first) + more for more in last[1:])]
            return [self.paint(cut(line.rstrip(), self.width), style) for line in lines]

        lines = text(head, "dim")
        for row, style in zip(cells, styles or [""] * len(rows)):
            lines += text(row, style)
        return lines


def duration(seconds: float) -> str:
    """How long, as people say it: 45 s, 12 min, 3 h 05 min, 4 d 2 h."""
    s = max(0, round(seconds))
    if s < 120:
        return f"{s} s"
    if s < 7200:
        return f"{s // 60} min"
    if s < 172_800:
        return f"{s // 3600} h {s % 3600 // 60:02} min"
    return f"{s // 86_400} d {s % 86_400 // 3600} h"
