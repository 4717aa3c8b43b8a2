"""The keys of [gridengine] that can be written wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from elastiq.plugins.batch.gridengine_options import OPTIONS, values_by_kind

CHECKS: dict[str, Any] = {option.name: option.check for option in OPTIONS if option.check}


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("hostgroups", ("@allhosts", "@pool_%pool%", "@%flavour%"), ""),
        ("hostgroups", ("allhosts",), "`allhosts` is no name of a host group, which begins with @"),
        ("hostgroups", ("@a b",), "`@a b` is no name of a host group, which begins with @"),
        ("hostgroups", ("@%user%",), "`@%user%` is no name of a host group, which begins with @"),
        ("complex_values", ("m5.large: slots=2, h_vmem=7G", "gpu:gpu=1"), ""),
        ("complex_values", ("slots=2",), "`slots=2` is not `POOL or FLAVOUR: NAME=VALUE, ...`"),
        ("complex_values", ("gpu: slots",), "`gpu: slots` is not `POOL or FLAVOUR: NAME=VALUE, ...`"),
        ("complex_values", ("gpu: slots=2,",), "`gpu: slots=2,` is not `POOL or FLAVOUR: NAME=VALUE, ...`"),
        ("complex_values", ("gpu: a=2 b=7",), "`gpu: a=2 b=7` is not `POOL or FLAVOUR: NAME=VALUE, ...`"),
        ("qmaster_port", 6444, ""),
        ("qmaster_port", 0, "must be a port, 1 to 65535"),
        ("execd_port", 70000, "must be a port, 1 to 65535"),
        ("command_timeout_s", 0, "must be above 0"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_work_is_complained_of(key: str, value: object, complaint: str) -> None:
    assert CHECKS[key](value) == complaint


def test_values_are_found_by_pool_or_flavour_however_they_are_written() -> None:
    assert values_by_kind(["M5.Large : slots=2 , h_vmem=7G"]) == {"m5.large": "slots=2,h_vmem=7G"}
