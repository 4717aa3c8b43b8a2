"""The plots over time: jobs, machines by what they do, and what they cost; and the same as a table."""

from __future__ import annotations

from typing import Iterable, NamedTuple, Optional, Sequence

from elastiq.whatif.report_axes import Axis, Tick, from_zero, moment, times
from elastiq.whatif.report_markup import Element, duration, el, money, number, percent, place
from elastiq.whatif.report_plot import area, legend, line, plot, steps
from elastiq.whatif.series import Point

# From the ground up; the names are classes of style.css.
MACHINES = (("busy", "with jobs"), ("idle", "idle"), ("booting", "booting"))
JOBS = (("waiting", "waiting"), ("running", "running"))
SLICES = 240  # in the plots
ROWS = 40  # of the table
_MEANS = ("waiting", "running", "booting", "idle", "busy")
_MOST = ("most_waiting", "most_running", "most_vms")


def merged(points: Iterable[Point], most: int) -> list[Point]:
    """Points without a gap between them as at most so many, each of the same count of them but the last."""
    known = list(points)
    step = max(1, -(-len(known) // most))
    joined = [_joined(known[begin : begin + step]) for begin in range(0, len(known), step)]
    if len(joined) > 1 and joined[-1].end_s <= joined[-1].begin_s:  # what was paid at the very end
        last = joined.pop()
        joined[-1] = joined[-1]._replace(cost=last.cost)
    return [one for one in joined if one.end_s > one.begin_s]


def _joined(some: Sequence[Point]) -> Point:
    length_s = some[-1].end_s - some[0].begin_s
    means = {
        name: sum(getattr(one, name) * (one.end_s - one.begin_s) for one in some) / (length_s or 1.0) for name in _MEANS
    }
    return some[-1]._replace(
        begin_s=some[0].begin_s, **means, **{name: max(getattr(one, name) for one in some) for name in _MOST}
    )


def plots(points: Sequence[Point], began_at: Optional[float]) -> Element:
    """All of them, on one axis of time. There is at least one point, and one begins where the one before ends."""
    since, length_s = points[0].begin_s, points[-1].end_s - points[0].begin_s
    ticks = times(length_s, None if began_at is None else began_at + since)
    bounds = [(one.begin_s - since) / length_s for one in points] + [1.0]
    time = _Time(points, bounds, ticks)
    cost = None if any(one.cost is None for one in points) else _cost(time)
    hint = el("p", {"class": "hint"}, "Point at the plots for the numbers of a time.")
    return el("div", {"class": "plots"}, hint, _jobs(time), _machines(time), cost, _bands(points, began_at))


def as_table(points: Sequence[Point], began_at: Optional[float]) -> Element:
    """The same in numbers, for those who read no plots."""
    few = merged(points, ROWS)
    names = [text for _name, text in (*JOBS, *MACHINES)] + ["cost so far"]
    rows = []
    for one in few:
        texts = [*(number(getattr(one, name)) for name, _text in (*JOBS, *MACHINES)), money(one.cost)]
        cells = [el("td", {"class": "num", "data-label": name}, text) for name, text in zip(names, texts)]
        rows.append(el("tr", None, el("th", {"scope": "row"}, moment(one.begin_s, began_at)), *cells))
    head = [el("th", {"scope": "col", "class": "num"}, name) for name in names]
    table = el(
        "table",
        {"class": "runs"},
        el("caption", None, f"Means of {duration(few[0].end_s - few[0].begin_s)} each."),
        el("thead", None, el("tr", None, el("th", {"scope": "col"}, "from"), *head)),
        el("tbody", None, *rows),
    )
    return el("details", None, el("summary", None, "The same as a table"), el("div", {"class": "scroll"}, table))


# --------------------------------------------------------------------------- one plot each


class _Time(NamedTuple):
    """``bounds`` are those of the points, 0 to 1."""

    points: Sequence[Point]
    bounds: Sequence[float]
    ticks: Sequence[Tick]

    def steps(self, axis: Axis, values: Sequence[float]) -> list[tuple[float, float]]:
        return steps(self.bounds, list(map(axis.part, values)))

    def most(self, name: str) -> float:
        return max(float(getattr(one, name)) for one in self.points)


def _jobs(time: _Time) -> Element:
    axis = from_zero(max(time.most("most_waiting"), time.most("most_running")), whole=True)
    waiting = time.steps(axis, [one.waiting for one in time.points])
    most = time.steps(axis, [one.most_waiting for one in time.points])
    shapes = [
        area(most, [(0.0, 0.0), (1.0, 0.0)], "f-waiting wash"),
        line(time.steps(axis, [one.running for one in time.points]), "s-running"),
        line(waiting, "s-waiting"),
    ]
    said = f"At most {number(time.most('most_waiting'))} waited at a time (pale: the most in each part)."
    keys = legend([(f"f-{name} stroke", text, None) for name, text in JOBS])
    return _panel("Jobs", keys, said, plot(f"Jobs. {said}", 120, axis, time.ticks, shapes))


def _machines(time: _Time) -> Element:
    axis = from_zero(time.most("most_vms"), whole=True)
    low, shapes = [0.0] * len(time.points), []
    for name, _text in MACHINES:
        high = [below + getattr(one, name) for below, one in zip(low, time.points)]
        if high != low:
            shapes.append(area(time.steps(axis, high), time.steps(axis, low), f"f-{name}"))
        low = high
    shapes.append(line(time.steps(axis, [one.most_vms for one in time.points]), "most"))
    hours = {
        name: sum(getattr(one, name) * (one.end_s - one.begin_s) for one in time.points) for name, _text in MACHINES
    }
    keys = legend([(f"f-{name}", text, percent(hours[name], sum(hours.values()))) for name, text in MACHINES])
    said = f"At most {number(time.most('most_vms'))} at a time (dotted: the most in each part)."
    return _panel("Machines", keys, said, plot(f"Machines. {said}", 170, axis, time.ticks, shapes))


def _cost(time: _Time) -> Element:
    costs = [one.cost or 0.0 for one in time.points]
    axis = from_zero(max(costs))
    points = [(0.0, 0.0), *zip(time.bounds[1:], map(axis.part, costs))]
    shapes = [area(points, [(0.0, 0.0), (1.0, 0.0)], "f-cost wash"), line(points, "s-cost")]
    said = f"In the end {money(costs[-1])}."
    return _panel("Cost so far", None, said, plot(f"Cost so far. {said}", 100, axis, time.ticks, shapes))


def _panel(title: str, keys: Optional[Element], said: str, picture: Element) -> Element:
    head = el("div", {"class": "legend"}, el("h3", None, title), keys, el("span", {"class": "said-of"}, said))
    return el("div", {"class": "panel"}, head, picture)


def _bands(points: Sequence[Point], began_at: Optional[float]) -> Element:
    """What a pointer shows, without a script: over each point lies a band with its numbers."""
    bands = []
    for one in points:
        bold = [(number(getattr(one, name)), text) for name, text in (*JOBS, *MACHINES)]
        bold += [(money(one.cost), "so far")] if one.cost is not None else []
        words = [child for value, text in bold for child in (" · ", el("b", None, value), f" {text}")]
        part = (one.end_s - one.begin_s) / (points[0].end_s - points[0].begin_s)
        width = {"style": f"flex-grow:{place(part)}"} if abs(part - 1) > 0.001 else None
        bands.append(el("i", width, el("span", None, moment(one.begin_s, began_at), *words)))
    return el("div", {"class": "bands", "aria-hidden": "true"}, *bands)
