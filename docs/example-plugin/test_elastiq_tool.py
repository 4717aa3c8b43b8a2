"""elastiq's suite of clouds over the example: a real command, which a small program is here."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

import elastiq_tool
import pytest

from elastiq.conformance.cloud import CloudBench, CloudConformance
from elastiq.interfaces import LaunchError, Owner, Pool

OWNER = Owner("test", "0123456789abcdef0123", addresses=frozenset({"10.9.9.9"}), instance_id="m-head")

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
    cannot = {
        "adopt": "the tool sets tags at the launch only",
        "tokens": "the tool knows none",
        "flavours": "the tool has no catalogue",
        "stop": "the tool cannot stop a machine",
        "notice": "it takes no machine back",
        "market": "it has one price",
        "image": "it does not tell it",
    }

    @pytest.fixture
    def bench(self, tmp_path: Path) -> CloudBench:
        return ToolBench(tmp_path)
