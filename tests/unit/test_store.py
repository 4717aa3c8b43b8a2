"""What survives: kills, torn files, full disks, other versions; and what is never kept."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any, Callable

import pytest

from elastiq import history
from elastiq.demand import Standing, Trial
from elastiq.interfaces import Intent, Offer, Resources
from elastiq.nodes import Node, State
from elastiq.store import HISTORY_AT_MOST, VERSION, Store, StoreError, learned_from_json, learned_to_json
from tests.unit.values import WALL, a_node

INTENT = Intent("launch", "elastiq-head-launch", Offer("ec2", "medium", "net-1"), 2, WALL)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "elastiq.db")


def requested(number: int = 1) -> Node:
    return a_node(State.REQUESTED, number)


# --------------------------------------------------------------------------- what is kept


def test_a_node_is_kept_with_all_that_a_restart_cannot_observe_anew(path: str) -> None:
    node = a_node(
        State.LOST,
        reason="its worker is missing",
        since=WALL + 1,
        network="net-1",
        job_starts=3,
        idle_s=120.0,
        boot_s=90.0,
        lost_s=45.0,
        groups={"g": 4},
        number=7,
        was_busy=True,
    )
    store = Store(path)
    store.save([node])
    store.close()
    (kept,) = Store(path).nodes()
    assert kept == node
    assert kept.was_busy
    assert (kept.seen, kept.instance, kept.acting, kept.retry_at) == (None, None, False, 0.0)


def test_a_node_that_is_gone_is_removed_and_one_that_changed_is_replaced(path: str) -> None:
    store = Store(path)
    first, second = a_node(number=1), a_node(number=2)
    store.save([first, second])
    first.state, second.idle_s = State.GONE, 60.0
    store.save([first, second])
    assert [(node.id, node.idle_s) for node in Store(path).nodes()] == [("launch.2", 60.0)]


def test_trials_are_replaced_as_a_whole_and_keep_their_order(path: str) -> None:
    store = Store(path)
    records = [
        Trial("b", Standing.UNSERVED, "image-1", 4, 9, 1, 300.0, "did not start", ("ec2",)),
        Trial("a", Standing.SERVED),
    ]
    store.replace_trials([Trial("old")])
    store.replace_trials(records)
    assert Store(path).trials() == records


def test_facts_and_history_are_kept(path: str) -> None:
    store = Store(path)
    learned = {("ec2", "medium"): Resources(cpus=4, memory_mb=7900.5)}
    store.remember("learned", learned_to_json(learned))
    store.save((), [(WALL, "launch", "launch", "ec2", "2 of ec2/medium"), (WALL + 1, "idle", "i-1", "ec2", "")])
    again = Store(path)
    assert learned_from_json(again.recall("learned") or []) == learned
    assert again.recall("nothing of that name") is None
    assert [line[1] for line in history.lines(again)] == ["launch", "idle"]
    assert [line[1] for line in history.lines(again, last=1)] == ["idle"]


def test_moves_and_their_history_are_one_write(path: str) -> None:
    store = Store(path)
    store.save([a_node()], [(WALL, "idle", "i-1", "ec2", "no job runs on it")])
    again = Store(path)
    assert (len(again.nodes()), len(history.lines(again))) == (1, 1)


def test_history_is_bounded(path: str) -> None:
    store = Store(path)
    for _ in range(5):
        store.save((), [(WALL, "idle", f"i-{number}", "ec2", "") for number in range(HISTORY_AT_MOST // 2)])
    lines = history.lines(store, last=10 * HISTORY_AT_MOST)
    assert len(lines) <= HISTORY_AT_MOST + 1000
    assert lines[-1][2] == f"i-{HISTORY_AT_MOST // 2 - 1}"


def test_the_file_is_for_its_owner_only(path: str) -> None:
    Store(path).save([a_node()])
    for name in os.listdir(os.path.dirname(path)):
        mode = stat.S_IMODE(os.stat(os.path.join(os.path.dirname(path), name)).st_mode)
        assert mode & 0o077 == 0, name


def test_nothing_of_a_node_or_an_intent_could_be_a_secret() -> None:
    """A field that is new has to be thought about here: user data, keys and tokens of a cloud stay out."""
    names = {field.name for kind in (Node, Intent, Offer, Trial) for field in fields(kind)}
    assert not {name for name in names if "secret" in name or "password" in name or "user_data" in name}
    assert {field.name for field in fields(Intent)} == {"id", "token", "offer", "count", "created_at"}
    assert {field.name for field in fields(Offer)} == {"pool", "flavour", "network", "market"}


# --------------------------------------------------------------------------- kills

KILLED = """
import os, signal, sys
sys.path[:0] = {path!r}
from elastiq.interfaces import Intent, Offer
from elastiq.store import Store
from tests.unit.values import a_node
from elastiq.nodes import State
store = Store({store!r})
store.journal(Intent("launch", "t", Offer("ec2", "medium"), 2, 1.0), [a_node(State.REQUESTED, n) for n in (1, 2)])
{more}
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(store: str, more: str = "") -> None:
    code = KILLED.format(path=sys.path, store=store, more=more)
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == -9


def test_a_launch_that_was_journalled_is_there_after_a_kill(path: str) -> None:
    killed(path)
    store = Store(path)
    assert store.notice == ""
    assert [(intent.id, intent.count) for intent in store.intents()] == [("launch", 2)]
    assert [node.state for node in store.nodes()] == [State.REQUESTED, State.REQUESTED]
    store.close_intent("launch")
    assert Store(path).intents() == []


def test_a_write_that_a_kill_cut_in_two_did_not_happen(path: str) -> None:
    killed(path, "db = store._db\ndb.execute('BEGIN IMMEDIATE')\ndb.execute('DELETE FROM records')")
    assert len(Store(path).nodes()) == 2


def test_a_journal_is_all_or_nothing(path: str) -> None:
    store = Store(path)
    bad = requested(2)
    bad.reason = object()  # type: ignore[assignment]
    with pytest.raises(TypeError):
        store.journal(INTENT, [requested(1), bad])
    assert (store.intents(), store.nodes()) == ([], [])
    store.journal(INTENT, [requested(1)])
    assert store.intents() == [INTENT]


# --------------------------------------------------------------------------- other files


def test_a_newer_schema_is_refused_and_left_as_it_is(path: str) -> None:
    Store(path).close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    with pytest.raises(StoreError, match=f"newer elastiq \\(schema {VERSION + 1}, this one knows {VERSION}\\)"):
        Store(path)
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone()[0] == VERSION + 1


def filled(path: str) -> None:
    store = Store(path)
    store.save(a_node(number=number) for number in range(1, 500))
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()


def torn(path: str) -> None:
    filled(path)
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 2)


def overwritten(path: str) -> None:
    filled(path)
    with open(path, "r+b") as file:
        for page in range(2, os.path.getsize(path) // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)


def half_a_row(path: str) -> None:
    filled(path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE records SET data = substr(data, 1, 20) WHERE key = 'launch.7'")


def unknown_state(path: str) -> None:
    filled(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE records SET data = replace(data, '\"idle\"', '\"sleeping\"')")


def bad_intent(path: str) -> None:
    filled(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO records VALUES ('intent', 'x', '{\"id\": 1}')")


def cut_in_its_first_page(path: str) -> None:
    filled(path)
    os.truncate(path, 2000)


CORRUPT: dict[str, Callable[[str], Any]] = {
    "NULs": lambda path: Path(path).write_bytes(b"\0" * 8192),
    "garbage": lambda path: Path(path).write_bytes(os.urandom(8192)),
    "another format": lambda path: Path(path).write_text(json.dumps({"nodes": []}) * 200),
    "torn": torn,
    "overwritten": overwritten,
    "cut in its first page": cut_in_its_first_page,
    "half a row": half_a_row,
    "an unknown state": unknown_state,
    "an intent that is none": bad_intent,
}


@pytest.mark.parametrize("how", CORRUPT)
def test_a_corrupt_file_is_put_aside_with_a_notice_and_a_new_one_is_begun(path: str, how: str) -> None:
    CORRUPT[how](path)
    size = os.path.getsize(path)
    store = Store(path)
    assert f"kept as {path}.corrupt" in store.notice
    assert os.path.getsize(f"{path}.corrupt") == size
    assert (store.nodes(), store.intents(), store.trials()) == ([], [], [])
    store.save([a_node()])
    store.close()
    again = Store(path)
    assert (len(again.nodes()), again.notice) == (1, "")


@pytest.mark.parametrize("how", ["missing", "garbage", "a damaged page", "cut"])
def test_a_write_ahead_log_that_was_lost_or_damaged_after_a_kill_costs_nothing(path: str, how: str) -> None:
    """SQLite takes such a log for an empty one and says nothing: what counts must be in the file itself."""
    pid = os.fork()
    if pid == 0:
        store = Store(path)
        store.remember("cluster", "c")
        store.journal(INTENT, [a_node(number=number) for number in range(1, 50)])
        os._exit(0)  # as kill -9: nothing is closed
    assert os.waitpid(pid, 0)[1] == 0
    log = Path(f"{path}-wal")
    assert log.exists()
    if how == "missing":
        log.unlink()
        Path(f"{path}-shm").unlink()
    elif how == "garbage":
        log.write_bytes(os.urandom(5000))
    elif how == "cut":
        os.truncate(log, 100)
    else:
        with open(log, "r+b") as file:
            file.write(os.urandom(200))
    store = Store(path)
    assert (len(store.nodes()), store.intents(), store.recall("cluster")) == (49, [INTENT], "c")


def test_a_file_that_was_emptied_is_told(path: str) -> None:
    Path(path).write_bytes(b"")
    store = Store(path)
    assert store.notice == f"{path} was empty: starting from the cloud's tags"
    store.save([a_node()])
    store.close()
    assert Store(path).notice == ""


def test_a_first_start_is_nothing_to_tell(path: str) -> None:
    assert Store(path).notice == ""
    assert Store(":memory:").notice == ""


# --------------------------------------------------------------------------- no way to write


def test_a_directory_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"missing/elastiq\.db: No such file or directory"):
        Store(str(tmp_path / "missing" / "elastiq.db"))


def test_a_directory_in_the_place_of_the_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=str(tmp_path)):
        Store(str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="needs an ordinary user, root may write anywhere")
@pytest.mark.parametrize("exists", [True, False])
def test_a_directory_that_is_read_only_is_one_clear_line(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "elastiq.db"
    if exists:
        Store(str(path)).close()
        path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="directory"):
            Store(str(path))
    finally:
        tmp_path.chmod(0o700)


def test_a_store_that_became_read_only_refuses_writes_and_reads_on(path: str) -> None:
    store = Store(path)
    store.save([a_node()])
    store._db.execute("PRAGMA query_only = ON")
    writes: list[Callable[[], None]] = [
        lambda: store.save([a_node(number=2)]),
        lambda: store.journal(INTENT, [requested()]),
        lambda: store.close_intent("launch"),
        lambda: store.remember("key", 1),
        lambda: store.save((), [(WALL, "idle", "i-1", "ec2", "")]),
        lambda: store.replace_trials([Trial("g")]),
    ]
    for write in writes:
        with pytest.raises(StoreError, match=path):
            write()
    assert len(store.nodes()) == 1
    store._db.execute("PRAGMA query_only = OFF")
    store.save([a_node(number=2)])
    assert len(store.nodes()) == 2


def test_a_closed_store_says_so(path: str) -> None:
    store = Store(path)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.save([a_node()])
    with pytest.raises(StoreError, match="closed"):
        store.nodes()


def test_another_process_that_holds_the_file_is_waited_for_only_briefly(path: str) -> None:
    store = Store(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        store.save([a_node()])
    other.execute("ROLLBACK")
    store.save([a_node()])


FULL = """
import resource, signal, sys
sys.path[:0] = {path!r}
from elastiq.store import Store, StoreError
from tests.unit.values import a_node
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store({store!r})
store.save([a_node(number=1)])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    for number in range(2, 3000):
        store.save([a_node(number=n) for n in range(number, number + 50)])
except StoreError as exc:
    print(exc)
else:
    sys.exit("it was never full")
count = len(store.nodes())
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)) if {again} else None
print(count)
"""


def test_a_full_disk_is_a_store_error_and_what_was_written_is_there(path: str) -> None:
    """The limit on the size of files stands for the disk: the kernel refuses the write in both cases."""
    code = FULL.format(path=sys.path, store=path, again=False)
    done = subprocess.run([sys.executable, "-c", code], timeout=100, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said, count = done.stdout.splitlines()
    assert said.startswith(f"{path}: ")
    assert "rollback" not in said, "what went wrong first is what a person has to know"
    store = Store(path)
    assert store.notice == ""
    assert len(store.nodes()) == int(count) >= 51
