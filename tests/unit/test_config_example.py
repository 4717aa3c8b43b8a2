"""elastiq.conf.example documents every key, with the default that the code has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from elastiq import config, plugin_loader, values
from elastiq.idling import AUTO
from elastiq.keys import CORE, POOL
from elastiq.options import Option

EXAMPLE = Path(__file__).resolve().parents[2] / "elastiq.conf.example"
# The section of a batch system that is not the default is commented out whole.
OTHERS = [name for name in plugin_loader.BUILT_IN[plugin_loader.BATCH_GROUP] if name != "htcondor"]
MUST_SET = ["cluster_name", "flavour", "image_id", "max_vms", "region"]
# What is better than elastiq 1.0's value, which a file without the key keeps.
NEW = {"idle_for_time_s": "auto", "waiting_jobs_time_s": "auto"}


class Documented(NamedTuple):
    """A key in the example; ``comment`` is the paragraph above it, up to the key."""

    section: str
    key: str
    value: str
    commented: bool
    comment: str


def documented() -> list[Documented]:
    found, section, comment = [], "", ""
    for line in EXAMPLE.read_text("utf-8").splitlines():
        header = re.fullmatch(r"#?\[(.+)\]", line)
        key = re.fullmatch(r"(#?)([a-z][a-z0-9_]*) =(?: (.*))?", line)
        if header:
            section = header.group(1)
        elif key:
            found.append(Documented(section, key.group(2), key.group(3) or "", bool(key.group(1)), comment))
        elif line.startswith("# "):
            comment += f"{line[2:]} "
        elif not line:
            comment = ""
    return found


def declared() -> dict[tuple[str, str], Option]:
    cloud = plugin_loader.cloud_class("ec2")
    batches = [plugin_loader.batch_class(name) for name in ("htcondor", *OTHERS)]
    tables = {**CORE, **{batch.section: batch.OPTIONS for batch in batches}, "ec2": (*POOL, *cloud.OPTIONS)}
    return {(section, option.name): option for section, table in tables.items() for option in table}


def test_the_example_has_every_key_once_and_no_unknown_one() -> None:
    assert sorted((section, key) for section, key, *_ in documented()) == sorted(declared())


def test_a_key_that_is_commented_out_shows_the_default_of_the_code() -> None:
    for section, key, value, commented, _ in documented():
        option = declared()[section, key]
        if commented:
            assert values.parse(option, value, Path()) == option.default, f"[{section}] {key}"


def test_the_five_keys_to_set_and_what_is_new_are_the_only_ones_that_are_not_commented_out() -> None:
    assert sorted(key for _, key, _, commented, _ in documented() if not commented) == sorted([*MUST_SET, *NEW])
    assert {key: value for _, key, value, commented, _ in documented() if key in NEW and not commented} == NEW
    head = EXAMPLE.read_text("utf-8").partition("\n[")[0]
    for key in MUST_SET:
        assert re.search(rf"^#   {key} ", head, re.MULTILINE), key


def test_the_comment_above_a_key_says_its_unit_and_what_not_set_means() -> None:
    for section, key, _, _, comment in documented():
        option = declared()[section, key]
        assert comment, f"[{section}] {key}"
        if option.unit:
            assert option.unit.lower() in comment.lower(), f"[{section}] {key}: {option.unit}"
        if option.default is None and not option.required:
            assert re.search(r"not set|after the `=`", comment, re.IGNORECASE), f"[{section}] {key}"


def test_the_example_loads_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "elastiq.conf"
    path.write_bytes(EXAMPLE.read_bytes())
    loaded = config.load(path)
    assert loaded.warnings == []
    assert len(loaded.set_keys) == len([*MUST_SET, *NEW])
    assert (loaded.settings.idle_for_time_s, loaded.settings.waiting_jobs_time_s) == (AUTO, 0.0)


@pytest.mark.parametrize("batch", ["htcondor", *OTHERS])
def test_the_example_loads_with_every_default_of_a_batch_system_uncommented(tmp_path: Path, batch: str) -> None:
    text = re.sub(rf"(?m)^#\[{batch}\]$", f"[{batch}]", EXAMPLE.read_text("utf-8"))
    others = rf"(?ms)^#?\[(?:{'|'.join({'htcondor', *OTHERS} - {batch})})\]\n.*?(?=^#?\[)"
    text = re.sub(others, "", text).replace("#batch_plugin = htcondor", f"batch_plugin = {batch}")
    path = tmp_path / "elastiq.conf"
    # A key without a default, which its section must have, is given something.
    for option in plugin_loader.batch_class(batch).OPTIONS:
        if option.required:
            value = next(one for one in ("/some/thing", "amqp://some") if not (option.check and option.check(one)))
            text = re.sub(rf"(?m)^#?{option.name} =$", f"{option.name} = {value}", text)
    path.write_text(text, "utf-8")
    plain = config.load(path)
    path.write_text(re.sub(r"(?m)^#([a-z][a-z0-9_]* =)", r"\1", path.read_text("utf-8")), "utf-8")
    whole = config.load(path)
    assert whole.settings == plain.settings
    assert whole.settings.batch_options == plain.settings.batch_options
    assert [pool.options for pool in whole.settings.pools] == [pool.options for pool in plain.settings.pools]
    sections = {*CORE, batch, "ec2"}
    assert len(whole.set_keys) == len([key for key in declared() if key[0] in sections])


def test_the_second_pool_of_the_example_loads(tmp_path: Path) -> None:
    text = EXAMPLE.read_text("utf-8")
    head, _, tail = text.rpartition("#   [ec2:gpu]")
    path = tmp_path / "elastiq.conf"
    path.write_text(head + "[ec2:gpu]" + re.sub(r"(?m)^#   ", "", tail), "utf-8")
    pool = config.load(path).settings.pools[1]
    assert (pool.name, pool.capacity.gpus, pool.max_vms) == ("gpu", 1, 2)


@pytest.mark.parametrize("mutation", ["drop", "rename", "change"])
def test_a_key_that_goes_astray_in_the_example_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutation: str
) -> None:
    new = {"drop": "", "rename": "#drain_timout_s = 300", "change": "#drain_timeout_s = 301"}[mutation]
    copy = tmp_path / "example"
    copy.write_text(EXAMPLE.read_text("utf-8").replace("#drain_timeout_s = 300", new), "utf-8")
    monkeypatch.setitem(globals(), "EXAMPLE", copy)
    with pytest.raises(AssertionError):
        test_the_example_has_every_key_once_and_no_unknown_one()
        test_a_key_that_is_commented_out_shows_the_default_of_the_code()
