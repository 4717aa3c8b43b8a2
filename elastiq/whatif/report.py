"""A simulation as one page that needs nothing else: no script, no network, no font.

It is styled as the page of the section [web] is, with that page's own style sheet. Its policy lets it load nothing,
so that it can be sent around and opened anywhere.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Iterable, Optional, Sequence
from xml.etree import ElementTree

from elastiq import __version__
from elastiq.whatif import report_advice, report_frontier, report_tables, report_time
from elastiq.whatif.report_markup import Child, Element, el, written
from elastiq.whatif.series import Point
from elastiq.whatif.terms import Result
from elastiq.wording import counted

_FILES = Path(__file__).parents[1] / "web" / "files"
_STYLES = (_FILES / "style.css", Path(__file__).with_name("report.css"))
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_WAITS = (("mean_wait_s", "mean wait"), ("p95_wait_s", "wait that 95 % of the jobs stay below"))


class ReportError(Exception):
    """The report cannot be written there. One line."""


def write_report(
    path: Path,
    runs: Sequence[Result],
    points: Iterable[Point] = (),
    *,
    title: str = "",
    began_at: Optional[float] = None,
    assumed: Sequence[str] = (),
    noticed: Sequence[str] = (),
    present: Optional[int] = None,
) -> None:
    """Write the page: whole, or not at all.

    ``runs``: one, or those of a sweep. ``points``: how the run with the present settings (or the only one) went over
    time, as `Series.points` has it; none: there are no plots of it. ``title``: what was replayed, as the name of the
    trace. ``began_at``: the wall time of its first job, where that is known. ``assumed`` and ``noticed``: sentences
    for the person who reads it; what `Result` itself counts need not be among them. ``present``: the index of the run
    with the present settings; else the first one that changed none. Raises `ReportError`, and ValueError if there is
    no run.
    """
    page = made(runs, points, title=title, began_at=began_at, assumed=assumed, noticed=noticed, present=present)
    try:
        _write(path, page.encode())
    except OSError as error:
        raise ReportError(f"cannot write the report to {path}: {error.strerror or error}") from None


def _write(path: Path, data: bytes) -> None:
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):  # as /dev/stdout
        path.write_bytes(data)
        return
    path = Path(os.path.realpath(path))  # what a link leads to is replaced, not the link
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(descriptor, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def made(
    runs: Sequence[Result],
    points: Iterable[Point] = (),
    *,
    title: str = "",
    began_at: Optional[float] = None,
    assumed: Sequence[str] = (),
    noticed: Sequence[str] = (),
    present: Optional[int] = None,
) -> str:
    """The page as text. As `write_report`."""
    if not runs:
        raise ValueError("a report needs at least one run")
    if present is None:
        present = next((index for index, run in enumerate(runs) if not run.settings), None)
    shown = runs[present if present is not None else 0]
    main = [
        _notices(runs, shown),
        *(_sweep(runs, present) if len(runs) > 1 else ()),
        el("h2", {"class": "lead"}, "With the present settings") if len(runs) > 1 and present is not None else None,
        report_tables.tiles(shown),
        _over_time(points, began_at, len(runs) > 1),
        _card("All numbers", report_tables.all_of(shown)) if len(runs) == 1 else None,
        _said(assumed, noticed),
    ]
    return written(_document(title, main))


def _document(title: str, main: Sequence[Child]) -> Element:
    logo = ElementTree.parse(_FILES / "icon.svg").getroot()
    for part in logo.iter():
        part.tag = part.tag.partition("}")[2]  # within HTML they need no namespace
    for name, value in {"width": "28", "height": "28", "aria-hidden": "true"}.items():
        logo.set(name, value)
    name = f"elastiq: {title or 'what if'}"
    heading = el("h1", None, el("span", {"class": "brand"}, "elastiq what if "), title)
    head = el(
        "head",
        None,
        el("meta", {"charset": "utf-8"}),
        el("meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY}),
        el("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        el("meta", {"name": "color-scheme", "content": "light dark"}),
        el("meta", {"name": "robots", "content": "noindex"}),
        el("title", None, name),
        el("style", None, "\n".join(path.read_text("utf-8") for path in _STYLES)),
    )
    body = el(
        "body",
        None,
        el("header", {"class": "top"}, el("div", {"class": "wide"}, logo, heading)),
        el("main", {"class": "wide"}, *main),
        el("footer", {"class": "wide"}, el("p", None, f"Made by elastiqctl simulate, elastiq {__version__}.")),
    )
    return el("html", {"lang": "en"}, head, body)


def _card(title: str, *inside: Child) -> Element:
    return el("section", {"class": "card"}, el("div", {"class": "card-head"}, el("h2", None, title)), *inside)


def _notices(runs: Sequence[Result], shown: Result) -> Optional[Element]:
    """What spoils the result."""
    found = []
    if killed := max(run.killed_jobs for run in runs):
        found.append(("notice bad", f"elastiq killed {counted(killed, 'job')}: that is a bug, please report it."))
    if shown.left_jobs:
        found.append(("notice", f"{counted(shown.left_jobs, 'job')} still waited in the end, though a flavour fits."))
    if shown.unmatchable_jobs:
        found.append(("notice", f"{counted(shown.unmatchable_jobs, 'job')} did not run: no flavour fits."))
    if shown.cost is None:
        found.append(
            ("notice info", "What it costs is not known: not all machines have a price. Machine-hours are shown.")
        )
    return el("div", {"class": "notices"}, *[el("p", {"class": kind}, text) for kind, text in found]) if found else None


def _sweep(runs: Sequence[Result], present: Optional[int]) -> list[Element]:
    number_of = None if present is None else present + 1
    found = [(report_frontier.frontier(runs, wait), name) for wait, name in _WAITS]
    best = {one.number for one in found[0][0].best}
    drawn = [report_frontier.draw(front, name, number_of) for front, name in found if front.points]
    advice = [el("li", None, text) for text in report_advice.advice(found[0][0], number_of)]
    line = "The line joins the runs that no other beats: none is cheaper without more waiting. Numbers: the runs below."
    hollow = " Hollow points did not do all the jobs." if found[0][0].hollow else ""
    by = "Cost" if found[0][0].by_cost else "Machine-hours"
    return [
        _card(
            f"{by} against waiting, {counted(len(runs), 'run')}",
            el("ul", {"class": "advice"}, *advice) if advice else None,
            el("p", {"class": "under"}, line + hollow) if drawn else el("p", None, "No run has both."),
            el("div", {"class": "pair"}, *drawn),
        ),
        _card(
            "All runs",
            el("p", {"class": "under"}, "Green numbers: on the line."),
            report_tables.of_runs(runs, best, number_of),
        ),
    ]


def _over_time(points: Iterable[Point], began_at: Optional[float], sweep: bool) -> Optional[Element]:
    shown = report_time.merged(points, report_time.SLICES)
    if not shown:
        return None
    title = "Over time, with the present settings" if sweep else "Over time"
    return _card(title, report_time.plots(shown, began_at), report_time.as_table(shown, began_at))


def _said(assumed: Sequence[str], noticed: Sequence[str]) -> Optional[Element]:
    parts = [
        _card(title, el("ul", {"class": "said-list"}, *[el("li", None, text) for text in texts]))
        for title, texts in (("Assumed", assumed), ("Noticed", noticed))
        if texts
    ]
    return el("div", {"class": "pair" if len(parts) > 1 else None}, *parts) if parts else None
