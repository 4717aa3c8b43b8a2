"""What a worker's own ad says of the end of its machine."""

from __future__ import annotations

from typing import Any

import pytest

from elastiq.plugins.batch.htcondor_slots import SLOT_ATTRIBUTES, worker

SLOT: dict[str, Any] = {
    "name": "slot1@w1",
    "machine": "w1",
    "mytype": "Machine",
    "state": "Unclaimed",
    "activity": "Idle",
}


@pytest.mark.parametrize(
    ("said", "notice"),
    [
        ([], ""),
        ([""], ""),
        ([None], ""),  # undefined
        ([7], ""),
        (["spot interruption: action: terminate"], "spot interruption: action: terminate"),
        (["", "spot interruption"], "spot interruption"),  # the slots' ads come one after the other
    ],
)
def test_the_notice_of_any_slot_is_the_workers(said: list[Any], notice: str) -> None:
    assert "ElastiqNotice" in SLOT_ATTRIBUTES
    slots = [{**SLOT, "elastiqnotice": text} for text in said] or [SLOT]
    assert worker("w1", slots).notice == notice
