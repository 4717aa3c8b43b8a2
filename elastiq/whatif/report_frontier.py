"""Cost against waiting: one point for each run of a sweep, and the line of those that no other beats."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

from elastiq.whatif.report_axes import around, waits
from elastiq.whatif.report_markup import Element, duration, el, money, number, place
from elastiq.whatif.report_plot import line, percent, percent_up, plot
from elastiq.whatif.terms import Result
from elastiq.wording import counted

WIDTH, HEIGHT = 400.0, 320.0  # pixels: a plot is about so wide, or wider
POINTS = 250  # of more, those of the line are drawn, and of the rest every so many

# Where a label may begin, or (to the left) end: to the right, and down. A frontier falls to the right: above is room.
_BESIDE = ((7, -5), (-7, 13), (7, 13), (-7, -5), (13, -13), (-13, 21))
_BESIDE_RING = ((13, -4), (-13, 13), (13, 13), (-13, -4))


class Point(NamedTuple):
    """``spent``: what it cost, or its machine hours."""

    number: int
    run: Result
    spent: float
    wait_s: float


def are_comparable(runs: Sequence[Result]) -> list[bool]:
    """Of each whether it did all that others did: a run that leaves jobs undone is cheap and quick by that."""
    most = max(run.jobs_done for run in runs)
    return [not run.killed_jobs and run.jobs_done >= most for run in runs]


def spent(run: Result, by_cost: bool) -> Optional[float]:
    return run.cost if by_cost else run.machine_hours


def undominated(points: Sequence[Point]) -> list[Point]:
    """Those of which no other is better in one and not worse in the other, cheapest first; of equals, the first."""
    found: list[Point] = []
    for point in sorted(points, key=lambda one: (one.spent, one.wait_s, one.number)):
        if not found or point.wait_s < found[-1].wait_s:
            found.append(point)
    return found


def settings_of(run: Result) -> str:
    """`idle_for_time_s = 300, max_vms = 10`."""
    return ", ".join(f"{key} = {value}" for key, value in run.settings.items()) or "present settings"


class Frontier(NamedTuple):
    """All runs of which both is known; the ``best`` of these. ``by_cost``: else by machine hours."""

    points: Sequence[Point]
    best: Sequence[Point]
    by_cost: bool
    hollow: frozenset[int]  # numbers of those that cannot be compared


def frontier(runs: Sequence[Result], wait: str = "mean_wait_s") -> Frontier:
    """``wait``: the field of `Result` that counts."""
    by_cost = all(run.cost is not None for run in runs)
    points = []
    for index, run in enumerate(runs):
        cost, wait_s = spent(run, by_cost), getattr(run, wait)
        if cost is not None and wait_s is not None:
            points.append(Point(index + 1, run, cost, wait_s))
    comparable = are_comparable(runs)
    hollow = frozenset(one.number for one in points if not comparable[one.number - 1])
    best = undominated([one for one in points if one.number not in hollow])
    return Frontier(points, best, by_cost, hollow)


def draw(found: Frontier, name: str, present: Optional[int]) -> Element:
    """A plot of it. There is at least one point. ``present``: the number of the run with the present settings."""
    across, up = around([one.spent for one in found.points]), waits([one.wait_s for one in found.points])
    best = {one.number for one in found.best}
    shapes = [line([(across.part(one.spent), up.part(one.wait_s)) for one in found.best], "s-frontier")]
    shown = [(one, across.part(one.spent), up.part(one.wait_s)) for one in _shown(found, best, present)]
    dots = [_dot(found, one, x, y, one.number in best, one.number == present) for one, x, y in shown]
    labels = _labels([row for row in reversed(shown) if row[0].number in best or row[0].number == present], present)
    hits = [_hit(found, one, x, y, name) for one, x, y in shown]
    said = f"{name} against {'cost' if found.by_cost else 'machine-hours'}, {counted(len(found.points), 'run')}"
    picture = plot(said, round(HEIGHT), up, across.ticks, shapes, *dots, *labels)
    return el(
        "div",
        {"class": "scatter"},
        el("p", {"class": "axis-of"}, f"\u2191 {name}"),
        el("div", {"class": "field"}, picture, el("div", {"class": "hits"}, *hits)),
        el("p", {"class": "axis-of below"}, f"{'cost' if found.by_cost else 'machine-hours'} \u2192"),
    )


def _shown(found: Frontier, best: set[int], present: Optional[int]) -> list[Point]:
    """What counts comes last, and so lies above."""
    every = max(1, -(-len(found.points) // POINTS))
    kept = [one for one in found.points if one.number in best or one.number == present or one.number % every == 0]
    return sorted(kept, key=lambda one: (one.number in best, one.number == present))


def _dot(found: Frontier, one: Point, x: float, y: float, best: bool, present: bool) -> Element:
    at = {"cx": percent(x), "cy": percent_up(y)}
    kind = "dot hollow" if one.number in found.hollow else "dot best" if best else "dot"
    ring = el("circle", {"class": "present", "r": 9.5, **at}) if present else None
    title = el("title", None, f"{one.number}: {settings_of(one.run)}")
    return el("g", None, el("circle", {"class": kind, "r": 5 if best else 4, **at}), ring, title)


def _hit(found: Frontier, one: Point, x: float, y: float, name: str) -> Element:
    """What a pointer, a finger or the tabulator key finds there; it leads to the row of the table."""
    spent_text = money(one.spent) if found.by_cost else f"{number(one.spent)} machine-hours"
    what, text = f"{one.number}: {settings_of(one.run)}", f"{spent_text}, {name} {duration(one.wait_s)}"
    attributes = {
        "href": f"#run-{one.number}",
        "class": " ".join(["hit", *(["left"] if x > 0.55 else []), *(["low"] if y > 0.8 else [])]),
        "style": f"left:{place(100 * x)}%;bottom:{place(100 * y)}%",
        "aria-label": f"Run {what}; {text}",
    }
    return el("a", attributes, el("span", None, el("b", None, what), el("br"), text))


def _labels(points: Sequence[tuple[Point, float, float]], present: Optional[int]) -> list[Element]:
    """Numbers beside the points where there is room for them, the most important first."""
    boxes = [_box(x * WIDTH - 5, y * HEIGHT - 5, 10, 10) for _one, x, y in points]
    made = []
    for one, x, y in points:
        text = f"{one.number} present" if one.number == present else str(one.number)
        wide = 7.5 * len(text)
        for dx, dy in _BESIDE_RING if one.number == present else _BESIDE:
            box = _box(x * WIDTH + (dx if dx > 0 else dx - wide), y * HEIGHT - dy, wide, 10)
            inside = box[0] >= 0 and box[2] <= WIDTH
            if inside and not any(_overlap(box, other) for other in boxes):
                boxes.append(box)
                attributes = {"x": percent(x), "y": percent_up(y), "dx": dx, "dy": dy}
                made.append(
                    el("text", {"class": "number", "text-anchor": None if dx > 0 else "end", **attributes}, text)
                )
                break
    return made


_Box = tuple[float, float, float, float]


def _box(left: float, low: float, wide: float, high: float) -> _Box:
    return left, low, left + wide, low + high


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
