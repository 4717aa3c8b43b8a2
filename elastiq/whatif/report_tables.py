"""The numbers of the report: tiles, all of one run, and a table of the runs of a sweep."""

from __future__ import annotations

from typing import Callable, Optional, Sequence

from elastiq.whatif.report_frontier import are_comparable
from elastiq.whatif.report_markup import Child, Element, duration, el, money, number, percent
from elastiq.whatif.terms import Result

ROWS = 300  # of a sweep; of more, the best and the first
HOLLOW = "did not do all the jobs that others did"


def tiles(run: Result) -> Element:
    """What a person looks for first."""
    per_job = run.cost / run.jobs_done if run.cost is not None and run.jobs_done else None
    hours = f"{number(run.machine_hours)} machine-hours"
    waited = f"median {duration(run.median_wait_s)}, 95 % less than {duration(run.p95_wait_s)}"
    return el(
        "div",
        {"class": "tiles"},
        _tile("Cost", money(run.cost), hours + (f", {money(per_job)} per job" if per_job is not None else ""))
        if run.cost is not None
        else _tile("Machine-hours", number(run.machine_hours), "what they cost is not known: no price is given"),
        _tile("Mean wait", duration(run.mean_wait_s), waited if run.mean_wait_s is not None else "no job ran"),
        _tile("Jobs done", number(run.jobs_done), f"of {number(run.jobs)}, in {duration(run.simulated_s)}"),
        _shares(run),
    )


def _tile(title: str, figure: str, *under: Child) -> Element:
    text = el("p", {"class": "under"}, *under)
    return el("section", {"class": "tile"}, el("h2", None, title), el("p", {"class": "figure"}, figure), text)


def working_hours(run: Result) -> float:
    """The hours of machines with jobs."""
    return max(0.0, run.machine_hours - run.idle_machine_hours - run.boot_machine_hours)


def _shares(run: Result) -> Element:
    hours = {"busy": working_hours(run), "idle": run.idle_machine_hours, "booting": run.boot_machine_hours}
    said = {"busy": "with jobs", "idle": "idle", "booting": "booting"}
    bars = [el("i", {"class": f"f-{name}", "style": f"flex:{max(0.0, part):.6f}"}) for name, part in hours.items()]
    keys = [
        el(
            "span",
            None,
            el("i", {"class": f"f-{name}"}),
            f"{said[name]} ",
            el("b", None, percent(part, run.machine_hours)),
        )
        for name, part in hours.items()
    ]
    launches = f"{number(run.launches)} launches, at most {number(run.peak_vms)} machines at a time"
    return el(
        "section",
        {"class": "tile tile-wide"},
        el("h2", None, "Where the machine-hours went"),
        el("div", {"class": "bar", "aria-hidden": "true"}, *bars) if run.machine_hours > 0 else None,
        el("p", {"class": "legend"}, *keys),
        el("p", {"class": "under"}, launches),
    )


# --------------------------------------------------------------------------- all of one run

Of = Callable[[Result], str]
_ALL: Sequence[tuple[str, Of, str]] = (
    ("Jobs of the trace", lambda run: number(run.jobs), ""),
    ("Jobs done", lambda run: number(run.jobs_done), ""),
    ("Mean wait", lambda run: duration(run.mean_wait_s), "from the submission to the start, of the jobs that started"),
    ("Median wait", lambda run: duration(run.median_wait_s), ""),
    ("95 % waited less than", lambda run: duration(run.p95_wait_s), ""),
    ("Mean slowdown", lambda run: number(run.mean_slowdown), "(wait + run) / run, a run counted as at least 10 s"),
    ("Machine-hours", lambda run: number(run.machine_hours), "from each launch to the request to end it, as billed"),
    ("of these idle", lambda run: _hours(run.idle_machine_hours, run), "a worker on which no job ran"),
    ("of these booting", lambda run: _hours(run.boot_machine_hours, run), "not a worker yet"),
    ("Most machines at a time", lambda run: number(run.peak_vms), ""),
    ("Launches", lambda run: number(run.launches), ""),
    ("Cost", lambda run: money(run.cost), "in the currency of the prices"),
    ("Jobs that no flavour fits", lambda run: number(run.unmatchable_jobs), ""),
    ("Cancelled while waiting", lambda run: number(run.cancelled_jobs), "as in the trace"),
    ("Left waiting in the end", lambda run: number(run.left_jobs), "though a flavour fits"),
    ("Killed by elastiq", lambda run: number(run.killed_jobs), "must be 0"),
    ("Lines that are no jobs", lambda run: number(run.bad_lines), ""),
    ("Jobs left out", lambda run: number(run.left_out), "too little is known of them"),
    ("Time simulated", lambda run: duration(run.simulated_s), ""),
)


def _hours(part: float, run: Result) -> str:
    return f"{number(part)} ({percent(part, run.machine_hours)})"


def all_of(run: Result) -> Element:
    """Each number of a result, with what it means."""
    rows = [
        el(
            "tr",
            None,
            el("th", {"scope": "row"}, name),
            el("td", {"class": "num"}, say(run)),
            el("td", {"class": "why"}, why),
        )
        for name, say, why in _ALL
    ]
    return el("table", {"class": "facts"}, el("tbody", None, *rows))


# --------------------------------------------------------------------------- the runs of a sweep

_COLUMNS: Sequence[tuple[str, Of]] = (
    ("cost", lambda run: money(run.cost)),
    ("machine-hours", lambda run: number(run.machine_hours)),
    ("mean wait", lambda run: duration(run.mean_wait_s)),
    ("median wait", lambda run: duration(run.median_wait_s)),
    ("p95 wait", lambda run: duration(run.p95_wait_s)),
    ("slowdown", lambda run: number(run.mean_slowdown)),
    ("idle", lambda run: percent(run.idle_machine_hours, run.machine_hours)),
    ("booting", lambda run: percent(run.boot_machine_hours, run.machine_hours)),
    ("peak", lambda run: number(run.peak_vms)),
    ("launches", lambda run: number(run.launches)),
    ("jobs done", lambda run: number(run.jobs_done)),
)

_EXTRA = ("median wait", "slowdown", "booting", "peak", "launches")  # a narrow screen and paper leave them out


def of_runs(runs: Sequence[Result], best: set[int], present: Optional[int]) -> Element:
    """A row each, by its number (from 1). ``best``: on the frontier."""
    needless = set() if any(run.cost is not None for run in runs) else {"cost"}
    if len({run.jobs_done for run in runs}) == 1:
        needless.add("jobs done")
    columns = [(name, say) for name, say in _COLUMNS if name not in needless]
    head = [_column("#"), el("th", {"scope": "col"}, "settings"), *[_column(name) for name, _say in columns]]
    shown = [index for index in range(len(runs)) if index < ROWS or index + 1 in best or index + 1 == present]
    comparable, rows = are_comparable(runs), []
    for index in shown:
        cells = [el("td", {"class": _class(name), "data-label": name}, say(runs[index])) for name, say in columns]
        rows.append(
            el(
                "tr",
                {"id": f"run-{index + 1}"},
                el("td", {"class": "num", "data-label": "run"}, _number(index + 1, index + 1 in best)),
                el("th", {"scope": "row"}, *_settings(runs[index], index + 1 == present, comparable[index])),
                *cells,
            )
        )
    table = el("table", {"class": "runs"}, el("thead", None, el("tr", None, *head)), el("tbody", None, *rows))
    left = len(runs) - len(shown)
    more = el("p", {"class": "under"}, f"{left} more runs are in --csv and --json.") if left else None
    return el("div", {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": "All runs"}, table, more)


def _column(name: str) -> Element:
    return el("th", {"scope": "col", "class": _class(name)}, name)


def _class(column: str) -> str:
    return "num extra" if column in _EXTRA else "num"


def _number(number_of: int, best: bool) -> Element:
    if not best:
        return el("span", None, str(number_of))
    return el("b", {"class": "pill good", "title": "on the line"}, str(number_of))


def _settings(run: Result, present: bool, comparable: bool) -> list[Child]:
    words: list[Child] = [el("span", {"class": "name"}, f"{key} = {value} ") for key, value in run.settings.items()]
    if present:
        words.append(el("span", {"class": "pill"}, "present settings"))
    elif not words:
        words.append("nothing changed")
    if not comparable:
        words += [" ", el("span", {"class": "pill warn"}, HOLLOW)]
    return words
