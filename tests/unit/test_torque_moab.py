"""What Moab says of Torque's jobs."""

from __future__ import annotations

import pytest

from elastiq.errors import SourceError
from elastiq.plugins.batch.pbs_jobs import job_groups
from elastiq.plugins.batch.pbs_requests import of_torque
from elastiq.plugins.batch.pbs_rows import Record
from elastiq.plugins.batch.torque_moab import blocked

SHOWQ = """

<Data><Object>queue</Object><cluster LocalActiveNodes="1" LocalIdleProcs="0" time="1"/>
<queue count="1" option="active"><job DRMJID="70.srv.example" JobID="70" State="Running" MasterHost="w1"/></queue>
<queue count="1" option="eligible"><job DRMJID="75.srv.example" JobID="75" ReqProcs="2" State="Idle"/></queue>
<queue count="3" option="blocked"><job DRMJID="77.srv.example" JobID="moab.9" State="Deffered"/>
<job JobID="78.srv.example" State="BatchHold"/><job DRMJID="151[3].srv.example" JobID="151[3]"/></queue></Data>
"""
COMPLETED = '<?xml version="1.0"?><Data><queue option="completed" count="0"/></Data>'


@pytest.mark.parametrize("text", [SHOWQ, SHOWQ + COMPLETED, '<?xml version="1.0"?>' + SHOWQ + "\n\n" + COMPLETED])
def test_blocked_jobs_are_told_by_torques_number_with_moabs_word(text: str) -> None:
    found = blocked(text)
    assert found.keys() == {"77", "78", "151[3]"}
    assert "Deffered" in found["77"] and "BatchHold" in found["78"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ERROR:  client timed out after 30 seconds (hostname:port=srv:42559)",
        "<Data></Data>",
        COMPLETED,
        SHOWQ[:200],
        SHOWQ.replace('option="blocked"', 'option="odd"'),
    ],
)
def test_any_other_answer_is_unknown_and_not_that_nothing_is_blocked(text: str) -> None:
    with pytest.raises(SourceError):
        blocked(text)


def test_a_blocked_job_is_no_demand_and_says_why_and_a_running_one_runs() -> None:
    records = [Record(f"{number}.srv.example", {"job_state": "Q", "queue": "batch"}) for number in (75, 77, 78)]
    records.append(Record("70.srv.example", {"job_state": "R", "queue": "batch"}))
    groups = job_groups(records, lambda record: of_torque({}), (), (), blocked(SHOWQ))
    waiting = {group.not_eligible.partition("(")[2]: (group.waiting, group.running) for group in groups}
    assert waiting == {"": (1, 1), "Deffered)": (1, 0), "BatchHold)": (1, 0)}
