"""What the loop does for the page: it looks, keeps, and publishes only for those who look."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from elastiq.daemon import Daemon
from elastiq.interfaces import JobGroup, Jobs
from elastiq.nodes import State
from elastiq.web import document, feed, page
from elastiq.web.document import GROUPS, NODES, RANGES, Documents
from elastiq.web.feed import FRESH_S, Published
from elastiq.web.kept import load
from elastiq.web.news import ENTRIES, News
from elastiq.web.page import Page
from elastiq.web.trend import FIELDS, unpack
from tests.unit.fakes import Surroundings
from tests.unit.values import ONE, a_node, a_pool
from tests.waiting import PATIENCE_S

SPAN_S = RANGES[0]


@pytest.fixture(autouse=True)
def every_look_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, too: one that took long puts off the next."""
    monkeypatch.setattr(page, "QUICK_S", 3600.0)


class Looked:
    """A daemon whose loop the test runs, and its page, which serves nothing."""

    def __init__(self, store_path: str = ":memory:", **settings: Any) -> None:
        self.around = Surroundings(store_path, **settings)
        self.daemon = Daemon(self.around.core)
        self.daemon.restore()
        self.page = Page(self.daemon)
        self.around.core.listeners.append(self.page)
        self.documents = Documents(self.page.feed)

    def run(self, seconds: float = 0.0) -> None:
        self.around.run(seconds)

    def now(self) -> Any:
        """What the browser gets that polls: the second look sees what the loop made of the first."""
        self.page.feed.look()
        self.run(2.0)
        return json.loads(self.documents.now())

    def history(self, span_s: int = SPAN_S) -> Any:
        return json.loads(self.documents.history(span_s))

    def read_jobs(self, *groups: JobGroup) -> None:
        self.around.batch.script.answers["jobs"] = Jobs(groups)
        self.daemon.observer.read_jobs()
        (read,) = self.around.executor.reads("queue")
        read.finish()


def test_the_trend_has_machines_by_what_they_do_and_jobs_that_wait_and_run() -> None:
    looked = Looked()
    for number, state in enumerate(State):
        if state is not State.GONE:
            looked.around.core.registry.add(a_node(state, number))
    looked.read_jobs(JobGroup("a", ONE, 3, running=5), JobGroup("b", ONE, 4, running=None))
    looked.run(1.0)
    row = dict(zip(FIELDS, unpack(looked.page.feed.latest.rows[0][-1] if looked.now() else b"")))
    assert {name: row[name] for name in FIELDS[:-1]} == {
        "waiting": 7, "running": 5, "booting": 3, "idle": 1, "busy": 1, "draining": 2, "other": 3,
    }  # fmt: skip


def test_while_the_queue_is_unknown_its_numbers_are_unknown_and_not_zero() -> None:
    looked = Looked()
    looked.run(31.0)
    looked.now()
    found = looked.history()
    assert len(found["at"]) == 2
    assert found["waiting"] == found["running"] == [None, None] and found["busy"] == [0.0, 0.0]


def test_what_machines_cost_is_known_where_they_have_a_price() -> None:
    priced = Looked(pools=(a_pool(prices={"medium": 0.25}),))
    for number in (1, 2):
        priced.around.core.registry.add(a_node(State.BUSY, number))
    priced.run(1.0)
    assert priced.now()["cost"] == 0.5 and priced.history()["cost"] == [0.5]
    free = Looked()
    free.around.core.registry.add(a_node(State.BUSY))
    assert free.now()["cost"] is None


def test_while_nobody_looks_nothing_is_made_for_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, made = Looked(), []

    def look(page: Page) -> Published:
        made.append(page)
        return page.feed.latest

    monkeypatch.setattr(Page, "_look", look)
    looked.run(3600.0)
    assert not made and not looked.daemon.asked
    looked.page.feed.look()
    looked.run(10.0)
    assert 4 <= len(made) <= 6


def test_who_looks_first_gets_what_the_loop_publishes_next_and_not_what_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "PATIENCE_S", PATIENCE_S)
    looked = Looked()
    old = looked.page.feed.latest = looked.page.feed.latest._replace(made=time.monotonic() - FRESH_S - 1)
    got: list[Any] = []
    client = threading.Thread(target=lambda: got.append(looked.page.feed.look()))
    client.start()
    while not looked.page.feed.is_watched():
        time.sleep(0.001)
    looked.run(2.0)
    client.join(PATIENCE_S)
    assert got and got[0] is not old and got[0].made > old.made


def test_a_loop_that_hangs_delays_an_answer_only_at_first_and_its_age_tells_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feed, "PATIENCE_S", 2.0)
    looked = Looked()
    looked.page.feed.latest = looked.page.feed.latest._replace(made=time.monotonic() - 100.0)
    began = time.monotonic()
    first = json.loads(looked.documents.now())
    took_s = time.monotonic() - began
    again = [json.loads(looked.documents.now()) for _ in range(20)]
    assert 2.0 <= took_s < 20 * 2.0 and time.monotonic() - began - took_s < 20 * 2.0
    assert first["age_s"] >= 102.0 and again[-1]["age_s"] >= first["age_s"]


def test_what_was_seen_and_done_outlives_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "elastiq.db")
    before = Looked(path)
    before.around.core.registry.add(a_node(State.IDLE))
    before.around.core.record("launch", "launch1", "ec2", "2 of ec2/medium: 5 waiting jobs")
    for _ in range(20):
        before.run(30.0)
    seen = before.now() and before.history()
    before.page.close()
    before.around.store.close()

    after = Looked(path)
    after.around.clock.wait(700.0)
    found = after.now() and after.history()
    assert len(seen["at"]) > 15
    assert found["at"][: len(seen["at"])] == seen["at"] and found["idle"][: len(seen["at"])] == seen["idle"]
    assert after.now()["decisions"][-1]["reason"] == "2 of ec2/medium: 5 waiting jobs"


def test_a_state_file_that_cannot_be_written_costs_nothing_but_what_a_restart_would_know(tmp_path: Path) -> None:
    path = tmp_path / "elastiq.db"
    looked = Looked(str(path))
    hidden = path.rename(tmp_path / "hidden")  # the store notices that it would write into nowhere
    looked.run(300.0)
    assert looked.around.core.counters["trend_store_errors"] and not looked.around.core.faults
    assert "store" not in looked.around.core.notices
    assert len(looked.now() and looked.history()["at"]) >= 10
    hidden.rename(path)
    looked.run(61.0)
    assert len(load(looked.around.store)) >= 10, "what could not be written was not forgotten"


def test_what_was_written_is_not_written_again() -> None:
    looked = Looked()
    looked.run(300.0)
    assert load(looked.around.store) and looked.page._writer.save()
    with looked.around.store.writing() as db:
        db.execute("DELETE FROM trend")
    assert looked.page._writer.save() and load(looked.around.store) == []


def noted(made: list[str], name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        made.append(name)
        return real(*arguments)

    return call


def test_however_many_look_what_they_get_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, made = Looked(), list[str]()
    looked.run(100.0)
    looked.now()
    for name in ("series", "totals"):
        monkeypatch.setattr(document, name, noted(made, name, getattr(document, name)))
    for _ in range(5):
        looked.documents.now()
        looked.documents.history(SPAN_S)
        looked.documents.history(RANGES[1])
    assert sorted(made) == ["series", "series"], "the totals were made with the first look"
    looked.run(31.0)
    looked.now()
    looked.documents.history(SPAN_S)
    assert sorted(made) == ["series", "series", "series", "totals"]


def test_a_daemon_without_a_page_has_no_table_for_it() -> None:
    assert load(Surroundings().store) == []


@pytest.mark.parametrize("table", ["CREATE TABLE trend (other)", "CREATE TABLE trend (tier, row)"])
def test_a_table_that_is_not_the_pages_is_as_good_as_none(table: str) -> None:
    around = Surroundings()
    with around.store.writing() as db:
        db.execute(table)
        if "row" in table:
            db.execute("INSERT INTO trend VALUES ('x', 5), (NULL, NULL), (0, 'text')")
    daemon = Daemon(around.core)
    around.core.listeners.append(Page(daemon))
    around.run(120.0)
    assert not around.core.faults


def test_decisions_are_told_with_their_reasons_newest_first() -> None:
    looked = Looked()
    core = looked.around.core
    core.record("launch", "launch1", "ec2", "1 of ec2/medium: a waiting job")
    node = a_node(State.PENDING)
    core.registry.add(node)
    looked.run(5.0)
    for state, reason in (
        (State.BOOTING, "the cloud runs it"),
        (State.IDLE, "no job runs on it"),
        (State.BUSY, "runs 4 jobs"),
        (State.IDLE, "no job runs on it"),
        (State.DRAINING, "idle for 600 s"),
        (State.TERMINATING, "idle for 600 s"),
        (State.GONE, "the cloud says so"),
    ):
        core.registry.move(node, state, reason, core.wall())
        core.persist()
        looked.run(1.0)
    told = [(one["kind"], one["node"], one["reason"]) for one in looked.now()["decisions"]]
    assert told == [
        ("end", "i-1", "idle for 600 s"),
        ("joined", "i-1", "no job runs on it"),
        ("launch", "launch1", "1 of ec2/medium: a waiting job"),
    ]
    assert [one["kind"] for one in News(core).entries] == ["launch", "joined", "end"], "the same from the file"


def test_of_many_decisions_the_newest_are_kept() -> None:
    looked = Looked()
    for number in range(3 * ENTRIES):
        looked.around.core.record("launch", f"launch{number}", "ec2", "")
    told = looked.now()["decisions"]
    assert len(told) == ENTRIES and told[0]["node"] == f"launch{3 * ENTRIES - 1}"


def test_of_a_large_cluster_only_what_a_person_can_look_at_is_sent() -> None:
    looked = Looked()
    for number in range(1, 2001):
        looked.around.core.registry.add(a_node(State.FAILED if number == 1500 else State.BUSY, number))
    looked.read_jobs(*(JobGroup(f"g{number}", ONE, number) for number in range(1, 1001)))
    looked.run(1.0)
    found = looked.now()
    assert found["states"] == {"failed": 1, "busy": 1999} and found["status"]["queue"]["waiting_jobs"] == 500_500
    assert len(found["status"]["nodes"]) == NODES and found["left_out"]["nodes"] == 2000 - NODES
    assert found["status"]["nodes"][0]["id"] == "i-1500", "what is unusual comes first"
    assert len(found["status"]["queue"]["groups"]) == GROUPS and found["left_out"]["groups"] == 1000 - GROUPS
    assert found["status"]["queue"]["groups"][0]["waiting"] == 1000
    assert len(json.dumps(found)) < 400_000


def test_what_the_page_does_not_show_is_not_sent() -> None:
    looked = Looked()
    looked.around.core.registry.add(a_node(State.BUSY))
    text = json.dumps(looked.now())
    assert '"i-1"' in text and "10.0.0.1" not in text and looked.around.owner.head not in text


def test_a_section_that_is_gone_leaves_nothing_behind() -> None:
    looked = Looked()
    looked.run(100.0)
    looked.around.core.listeners.remove(looked.page)
    looked.page.close()
    rows = looked.page.feed.latest.rows
    looked.page.feed.look()
    looked.run(100.0)
    assert looked.page.feed.latest.rows is rows
    assert not [timer for *_, timer in looked.around.events._timers if timer.action and "page" in repr(timer.action)]


def test_faults_of_elastiq_itself_are_not_kept_from_who_looks() -> None:
    looked = Looked()
    looked.around.core.guard("plan", lambda: 1 // 0)
    assert looked.now()["status"]["faults"] == 1


def test_switches_of_a_person_are_shown_with_their_reasons() -> None:
    looked = Looked(terminate=False)
    looked.around.core.paused = {"launch": "paused: a new image"}
    looked.run(1.0)
    assert looked.now()["off"] == {"launch": "paused: a new image", "terminate": "terminate = no"}


def test_a_look_that_takes_long_is_made_less_often_but_soon_enough_to_be_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page, "QUICK_S", 0.02)
    looked, real = Looked(), time.monotonic()
    clock, made = [real], []

    def look(page: Page) -> Published:
        made.append(clock[0])
        clock[0] += took_s
        return page.feed.latest

    monkeypatch.setattr(Page, "_look", look)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    for took_s, pause_s in ((0.001, 2.0), (0.2, 4.0), (3.0, 10.0)):
        made.clear()
        while len(made) < 4:
            looked.page.feed.look()
            looked.page._look_around()
            clock[0] += 2.0
        pauses = [later - before - took_s for before, later in zip(made[1:], made[2:])]
        assert all(pause_s - 0.1 <= pause <= pause_s + 2.0 for pause in pauses), took_s
