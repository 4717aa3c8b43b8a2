"""The keys of [celery]: queues with sizes, and where the broker is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elastiq.errors import SourceError
from elastiq.interfaces import Resources
from elastiq.plugins.batch.celery_helper import hidden
from elastiq.plugins.batch.celery_options import OPTIONS, TaskQueue, broker_url, task_queue, transport_options

CHECKS = {option.name: option.check for option in OPTIONS}


def complaint(name: str, value: Any) -> str:
    check = CHECKS[name]
    assert check is not None
    return check(value)


def test_a_queue_takes_one_cpu_of_any_pool_where_nothing_is_said() -> None:
    assert task_queue("celery") == TaskQueue("celery", Resources(cpus=1.0))


def test_a_queue_has_the_sizes_and_pools_that_its_line_says() -> None:
    line = "render.v2  cpus=4 memory_mb=8000.5 gpus=1 pools=Large,gpu"
    assert task_queue(line) == TaskQueue("render.v2", Resources(4.0, 8000.5, None, 1.0), ("gpu", "large"))


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("cpus=4", "the name of a queue"),
        ("q cpu=4", "`cpu=4` is not known"),
        ("q cpus=", "is not known"),
        ("q cpus=0", "is not known"),
        ("q cpus=-1", "is not known"),
        ("q cpus=nan", "is not known"),
        ("q pools=", "is not known"),
        ("q cpus=1 cpus=2", "twice"),
        ("elastiq.0123.q", "for its own"),
    ],
)
def test_a_line_that_is_no_queue_is_told(line: str, part: str) -> None:
    assert part in complaint("queues", ("celery", line))


def test_a_queue_is_there_once() -> None:
    assert "twice" in complaint("queues", ("a cpus=1", "b", "a"))
    assert complaint("queues", ("a", "b")) == ""


@pytest.mark.parametrize(
    "url", ["redis://h:1/0", "rediss://h", "sentinel://a;sentinel://b", "amqp://u:p@h//", "amqps://h"]
)
def test_a_broker_with_remote_control_is_taken(url: str) -> None:
    assert complaint("broker_url", url) == ""


@pytest.mark.parametrize(
    "url", ["sqs://", "filesystem://", "memory://", "http://u:topsecret@h/", "localhost", "/some/thing"]
)
def test_another_broker_is_not_and_its_password_is_not_told(url: str) -> None:
    said = complaint("broker_url", url)
    assert said and "topsecret" not in said


@pytest.mark.parametrize(
    "url", ["redis://:top/secret@h", "amqp://u:top#secret@h//", "sentinel://h;sentinel://:top?secret@i"]
)
def test_a_password_that_has_to_be_quoted_is_told_before_a_library_tells_half_of_it(url: str) -> None:
    said = complaint("broker_url", url)
    assert "%2F" in said and "top" not in said and "secret" not in said


def test_transport_options_are_a_json_object() -> None:
    assert complaint("broker_transport_options", '{"sep": ":"}') == ""
    assert "JSON" in complaint("broker_transport_options", "sep=:")
    assert "JSON" in complaint("broker_transport_options", "[1]")
    assert transport_options({"broker_transport_options": '{"sep": ":"}'}) == {"sep": ":"}
    assert transport_options({"broker_transport_options": None}) == {}


def test_the_url_is_read_from_its_file_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "url"
    for url in ("redis://:one@h", "redis://:two@h"):
        file.write_text(f"{url}\n")
        assert broker_url({"broker_url_file": str(file)}) == url


@pytest.mark.parametrize("content", [None, b"topsecret", b"\xff\xfe", b""])
def test_a_file_that_holds_no_url_is_an_error_without_what_it_holds(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "url"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        broker_url({"broker_url_file": str(file)})
    assert str(file) in str(caught.value) and "topsecret" not in str(caught.value)


def test_no_password_is_left_in_a_text_however_it_is_spelt() -> None:
    url = "sentinel://:p%40ss/1@a:26379/0;sentinel://user:other@b"
    options = {"sentinel_kwargs": {"password": "third", "username": "open"}, "sep": ":", "list": [{"pass": "fourth"}]}
    text = f"{url} p@ss/1 p%40ss/1 other third fourth open and sep :"
    assert hidden(text, url, options) == "*** *** *** *** *** *** open and sep :"


def test_a_url_without_a_password_hides_nothing_but_itself() -> None:
    assert hidden("redis://h:6379/0: Connection refused", "redis://h:6379/0", {}) == "***: Connection refused"
