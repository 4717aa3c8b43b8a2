"""The example of docs/plugins.md keeps both contracts: over real files, and a real command."""

from __future__ import annotations

import importlib.util
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Optional

import pytest

from elastiq.interfaces import LaunchError, Owner, Pool
from tests.conformance.batch import BatchBench, BatchConformance
from tests.conformance.cloud import CloudBench, CloudConformance

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "example-plugin"
OWNER = Owner("test", "0123456789abcdef0123", addresses=frozenset({"10.9.9.9"}), instance_id="m-head")


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLE / f"{name}.py")
    assert spec and spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


elastiq_spool, elastiq_tool = example("elastiq_spool"), example("elastiq_tool")


# --------------------------------------------------------------------------- the batch system


class SpoolBench(BatchBench):
    def __init__(self, directory: Path) -> None:
        self.directory, self.jobs = directory, 0
        for folder in ("jobs", "workers"):
            (directory / folder).mkdir(parents=True)
        self.batch = elastiq_spool.Spool.from_config({"directory": str(directory)}, OWNER)

    def _put(self, path: str, **row: Any) -> None:
        (self.directory / path).write_text(json.dumps(row))

    def _job(self, count: int, **row: Any) -> None:
        for _ in range(count):
            self.jobs += 1
            self._put(f"jobs/{self.jobs}.json", **row)

    def submit(self, count: int = 1, cpus: float = 1, memory_mb: Optional[float] = None) -> None:
        self._job(count, cpus=cpus, memory_mb=memory_mb, state="waiting")

    def hold(self, count: int = 1, cpus: float = 1) -> None:
        self._job(count, cpus=cpus, state="held")

    def add_worker(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192) -> str:
        self._put(f"workers/{name}.json", address=address, cpus=cpus, memory_mb=memory_mb)
        return name

    def start_job(self, worker: str, cpus: float = 1) -> None:
        self._job(1, cpus=cpus, state="running", worker=worker)

    def lose_worker(self, worker: str) -> None:
        (self.directory / f"workers/{worker}.json").unlink()

    @contextmanager
    def _without(self, path: Path) -> Iterator[None]:
        away = path.with_name("away")
        path.rename(away)
        try:
            yield
        finally:
            away.rename(path)

    def fail_next(self, call: str) -> None:
        """The directory is not there, as with a file server that is not mounted."""
        real = getattr(self.batch, call)

        def once(*arguments: Any) -> Any:
            setattr(self.batch, call, real)
            with self._without(self.directory):
                return real(*arguments)

        setattr(self.batch, call, once)

    def garble_next(self, call: str) -> None:
        (self.directory / f"{call}/torn.json").write_text('{"cpus": 1, "sta')

    def refuse_next_drain(self) -> None:
        real = self.batch.drain

        def once(worker: str, mode: Any) -> Any:
            self.batch.drain = real  # type: ignore[method-assign]
            path = self.directory / f"workers/{worker}.json"
            before = path.read_text()
            path.write_text(json.dumps({**json.loads(before), "drained_by": "an administrator"}))
            answer = real(worker, mode)
            path.write_text(before)
            return answer

        self.batch.drain = once  # type: ignore[method-assign]


class TestSpool(BatchConformance):
    cannot = frozenset({"job-starts", "parts"})

    @pytest.fixture
    def bench(self, tmp_path: Path) -> BatchBench:
        return SpoolBench(tmp_path / "spool")


@pytest.mark.parametrize("text", ["[]", '{"state": "waiting"}', "{}", "null"])
def test_a_job_that_lacks_something_makes_the_queue_unknown(tmp_path: Path, text: str) -> None:
    bench = SpoolBench(tmp_path / "spool")
    (bench.directory / "jobs/1.json").write_text(text)
    with pytest.raises(elastiq_spool.SourceError, match=r"1\.json lacks one of cpus, state"):
        bench.batch.jobs()


# --------------------------------------------------------------------------- the cloud

# A cloud's tool: what it knows is in a file beside it, and so is what is to go wrong with its next call.
TOOL = """#!{python} -SE
import json, pathlib, sys
path = pathlib.Path(__file__).with_name("cloud.json")
cloud = json.loads(path.read_text())
wrong = cloud["wrong"].pop(sys.argv[1], None)
def leave(code=0, text=""):
    path.write_text(json.dumps(cloud))
    print(text, file=sys.stderr if code else sys.stdout)
    sys.exit(code)
if wrong not in (None, "lose", "nonsense"):
    leave(wrong, "the cloud says no")
if sys.argv[1] == "list":
    answer = list(cloud["machines"].values())
elif sys.argv[1] == "launch":
    wanted, answer = json.loads(sys.argv[2]), []
    for _ in range(min(wanted["count"], cloud.pop("room", 99))):
        cloud["made"] += 1
        one = dict(id=f"m-{{cloud['made']}}", state="running", addresses=[f"10.0.0.{{cloud['made']}}"])
        one.update(launched_at=1700000000, flavour=wanted["flavour"], tags=wanted["tags"])
        cloud["machines"][one["id"]] = one
        answer.append(one)
else:
    answer = [one for one in sys.argv[2:] if one in cloud["machines"]]
    for one in answer:
        cloud["machines"][one]["state"] = "terminated"
leave({{"lose": 1}}.get(wrong, 0), "please log in" if wrong == "nonsense" else json.dumps(answer))
"""


class ToolBench(CloudBench):
    def __init__(self, folder: Path) -> None:
        self.tool, self.state = folder / "tool", folder / "cloud.json"
        self.tool.write_text(TOOL.format(python=sys.executable))
        self.tool.chmod(0o755)
        self.state.write_text(json.dumps({"machines": {}, "made": 0, "wrong": {}}))
        options = {option.name: option.default for option in elastiq_tool.ToolCloud.OPTIONS}
        options.update(command=str(self.tool), image="linux")
        pool = Pool("tool", elastiq_tool.ToolCloud.site_of(options), ("small",), options=options)
        self.owner, self.offers = OWNER, pool.offers()
        self.cloud = elastiq_tool.ToolCloud.from_config((pool,), OWNER)

    @contextmanager
    def _cloud(self) -> Iterator[Any]:
        cloud = json.loads(self.state.read_text())
        yield cloud
        self.state.write_text(json.dumps(cloud))

    def _add(self, name: str, **tags: str) -> str:
        with self._cloud() as cloud:
            row = {"id": name, "state": "running", "addresses": ["10.0.1.1"], "launched_at": 1.0, "flavour": "small"}
            cloud["machines"][name] = {**row, "tags": tags}
        return name

    def add_foreign(self) -> str:
        return self._add("m-foreign")

    def add_other_head(self) -> str:
        return self._add("m-other", cluster="test", head="another")

    def add_head_node(self) -> str:
        return self._add("m-head", cluster="test", head=OWNER.head)

    def run(self, instance_id: str) -> None:
        """They run at once."""

    def vanish(self, instance_id: str) -> None:
        with self._cloud() as cloud:
            del cloud["machines"][instance_id]

    def _wrong(self, call: str, how: Any) -> None:
        with self._cloud() as cloud:
            cloud["wrong"][call] = how

    def refuse_next_launch(self, error: type[LaunchError]) -> None:
        self._wrong("launch", next(code for code, kind in elastiq_tool.REFUSED.items() if kind is error))

    def lose_next_launch_answer(self) -> None:
        self._wrong("launch", "lose")

    def fail_next(self, call: str) -> None:
        self._wrong({"instances": "list", "find": "list"}.get(call, call), 1)

    def garble_next(self, call: str) -> None:
        self._wrong({"instances": "list"}.get(call, call), "nonsense")

    def limit_next_launch(self, count: int) -> None:
        with self._cloud() as cloud:
            cloud["room"] = count


class TestTool(CloudConformance):
    cannot = frozenset({"adopt", "tokens", "flavours", "stop", "notice", "market", "image"})

    @pytest.fixture
    def bench(self, tmp_path: Path) -> CloudBench:
        return ToolBench(tmp_path)
