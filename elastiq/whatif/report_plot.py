"""What the report's plots have in common: a frame that is as wide as the screen, whose words do not grow with it.

Shapes are drawn into a field of 1000 x 100 that is stretched; all else is placed in percent of it.
"""

from __future__ import annotations

from typing import Iterable, Iterator, Optional, Sequence

from elastiq.whatif.report_axes import Axis, Tick
from elastiq.whatif.report_markup import Child, Element, el, place

Points = Iterable[tuple[float, float]]  # both 0 to 1, from the left and from the ground
_FIELD = {"width": "100%", "height": "100%", "viewBox": "0 0 1000 100", "preserveAspectRatio": "none"}


def plot(name: str, height: int, axis: Axis, below: Sequence[Tick], shapes: Iterable[Element], *more: Child) -> Element:
    """``name`` is what a screen reader says of it; ``height`` in pixels; ``more`` lies above the shapes."""
    return el(
        "svg",
        {"class": "plot", "width": "100%", "height": height, "role": "img", "aria-label": name},
        *_grid(axis, below),
        el("svg", _FIELD, *shapes),
        *more,
    )


def _grid(axis: Axis, below: Sequence[Tick]) -> Iterator[Element]:
    """Every second word below is `minor`: a narrow screen leaves it out."""
    for tick in axis.ticks:
        at = percent_up(tick.part)
        yield el("line", {"class": "grid", "x1": "0", "x2": "100%", "y1": at, "y2": at})
        yield el("text", {"x": "-8", "y": at, "dy": "4", "text-anchor": "end"}, tick.text)
    for number, tick in enumerate(below):
        at = percent(tick.part)
        yield el("line", {"class": "grid", "x1": at, "x2": at, "y1": "0", "y2": "100%"})
        minor = "minor" if number % 2 else None
        yield el("text", {"class": minor, "x": at, "y": "100%", "dy": "17", "text-anchor": "middle"}, tick.text)


def percent(part: float) -> str:
    """From the left."""
    return f"{place(100 * part)}%"


def percent_up(part: float) -> str:
    """From the ground, as SVG counts: from the top."""
    return f"{place(100 - 100 * part)}%"


def line(points: Points, colour: str) -> Element:
    return el("polyline", {"class": colour, "points": _in_field(points)})


def area(points: Points, ground: Points, colour: str) -> Element:
    """Between two lines, both from the left to the right."""
    return el("polygon", {"class": colour, "points": _in_field([*points, *reversed(list(ground))])})


def steps(bounds: Sequence[float], heights: Sequence[float]) -> list[tuple[float, float]]:
    """A line of as many levels as there are ``heights``, between one more of ``bounds``; without needless points."""
    found: list[tuple[float, float]] = []
    for left, right, height in zip(bounds, bounds[1:], heights):
        if found and found[-1][1] == height:
            found[-1] = (right, height)
        else:
            found += [(left, height), (right, height)]
    return found


def _in_field(points: Points) -> str:
    return " ".join(f"{place(1000 * x)},{place(100 - 100 * y)}" for x, y in points)


def legend(entries: Sequence[tuple[str, str, Optional[str]]]) -> Element:
    """Of each its colour (a class), its name and a number."""
    keys = [
        el("span", None, el("i", {"class": colour}), text, el("b", None, f" {value}") if value else None)
        for colour, text, value in entries
    ]
    return el("span", {"class": "keys"}, *keys)
