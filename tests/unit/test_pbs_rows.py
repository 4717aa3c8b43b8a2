"""What PBS's commands print is read as it was meant, or not at all."""

from __future__ import annotations

import pytest

from elastiq.errors import SourceError
from elastiq.plugins.batch.pbs_rows import Malformed, from_json, from_text, from_xml

TORQUE_JOB = (
    "<Data><Job><Job_Id>149.srv.example</Job_Id><Job_Name>one</Job_Name><queue>a&amp;b &lt;c&gt;</queue>"
    "<job_state>Q</job_state>"
    "<Resource_List><ncpus>1</ncpus><nodect>2</nodect><nodes>1:ppn=2+2:ppn=3</nodes><walltime>48:00:00</walltime>"
    "</Resource_List><Variable_List>PBS_O_QUEUE=batch,ELASTIQ_POOL=gpu+bigmem,X=1</Variable_List>"
    "<euser>alice</euser></Job></Data>\n"
)
PBS_JOBS = """{
    "timestamp":1664911414,
    "pbs_version":"19.0.0",
    "pbs_server":"srv",
    "Jobs":{
        "53.srv":{
            "Job_Name":"one",
            "job_state":"Q",
            "max_run_subjobs":0,
            "Resource_List":{
                "ncpus":4,
                "select":"2:ncpus=2:mem=8gb",
                "place":"scatter:excl"
            },
            "Variable_List":{
                "PBS_O_HOME":"/home/alice",
                "ELASTIQ_POOL":"gpu",
                "FUNC":"() { echo	1; }"
            }
        }
    }
}
"""
PLAIN = """Job Id: 4.scheduler
    Job_Name = STDIN
    job_state = R
    exec_host = w1/0*2+w2/0*2
    Resource_List.select = 1:ncpus=2:mem=4gb+1:ncpus=2:mem=4gb:fancy=a_very_long
\t_value:other=x
    Variable_List = PBS_O_HOME=/home/alice,X=
    job_state = Q

Job Id: 5[].scheduler
    job_state = B

"""


def test_torques_xml_is_read_with_its_resources_by_name() -> None:
    (job,) = from_xml(TORQUE_JOB, "qstat", "Job", "Job_Id")
    assert (job.name, job.get("job_state"), job.get("queue")) == ("149.srv.example", "Q", "a&b <c>")
    assert dict(job.resources("resource_list"))["nodes"] == "1:ppn=2+2:ppn=3"
    assert job.get("variable_list.elastiq_pool") == "gpu+bigmem"


def test_of_the_environment_of_a_job_nothing_but_the_pool_is_kept() -> None:
    records = from_xml(TORQUE_JOB, "qstat", "Job", "Job_Id") + from_json(PBS_JOBS, "qstat", "Jobs")
    records += from_text(PLAIN, "qstat -f")
    for record in records:
        assert {name for name in record.attributes if name.startswith("variable_list")} <= {
            "variable_list.elastiq_pool"
        }
        assert not any("alice" in value for value in record.attributes.values())


@pytest.mark.parametrize("text", ["<Data></Data>", "<Data/>", "<?xml version='1.0'?>\n<Data></Data>\n"])
def test_an_empty_document_of_torque_is_no_job(text: str) -> None:
    assert from_xml(text, "qstat", "Job", "Job_Id") == []


def test_what_xml_must_not_hold_does_not_hide_the_jobs() -> None:
    text = TORQUE_JOB.replace("X=1", "X=\x1b[0m\x00&#27;\ufffd")
    assert [job.name for job in from_xml(text, "qstat", "Job", "Job_Id")] == ["149.srv.example"]


def test_a_document_larger_than_a_piece_is_read_whole() -> None:
    jobs = "".join(TORQUE_JOB[6:-8].replace("149", str(number)) for number in range(4000))
    assert len(from_xml(f"<Data>{jobs}</Data>", "qstat", "Job", "Job_Id")) == 4000


@pytest.mark.parametrize(
    "text",
    ["", "<html><body>Please log in</body></html>", TORQUE_JOB[:90], "<Data><Job></Job>", "pbs_iff: cannot read"],
)
def test_other_answers_than_xml_of_jobs_are_unknown(text: str) -> None:
    with pytest.raises(SourceError) as caught:
        from_xml(text, "qstat", "Job", "Job_Id")
    assert not isinstance(caught.value, Malformed)  # and no other form is asked for: it may be cut as well


def test_xml_that_is_whole_but_broken_inside_may_be_asked_for_in_another_form() -> None:
    with pytest.raises(Malformed):
        from_xml(TORQUE_JOB.replace("</Job_Name>", "</Name>"), "qstat", "Job", "Job_Id")


def test_pbs_pros_json_is_read_as_text_whatever_looks_like_a_number() -> None:
    (job,) = from_json(PBS_JOBS, "qstat", "Jobs")
    assert (job.name, job.get("max_run_subjobs"), job.get("resource_list.ncpus")) == ("53.srv", "0", "4")
    assert job.get("variable_list.elastiq_pool") == "gpu"


@pytest.mark.parametrize("number", ["1e400", "NaN", "-Infinity", "0.10", "12345678901234567890"])
def test_no_number_of_json_is_changed_or_fails(number: str) -> None:
    (job,) = from_json(PBS_JOBS.replace('"max_run_subjobs":0', f'"max_run_subjobs":{number}'), "qstat", "Jobs")
    assert job.get("max_run_subjobs") == number


def test_json_without_jobs_is_an_empty_queue() -> None:
    assert from_json('{"timestamp":1,"pbs_version":"22.05.11","pbs_server":"s"}', "qstat", "Jobs") == []


def test_json_without_nodes_is_no_empty_cluster() -> None:
    frame = '{"timestamp":1,"pbs_version":"22.05.11","pbs_server":"s"}'
    assert from_json(frame.replace("}", ',"nodes":{}}'), "pbsnodes", "nodes") == []
    with pytest.raises(SourceError):
        from_json(frame, "pbsnodes", "nodes")


@pytest.mark.parametrize(
    "value",
    [
        '"PBS_O_HOME":005',  # openpbs issue 1255
        '"PBS_O_HOME":.123',  # pull request 2603
        '"PBS_O_HOME":nan',
        r'"PBS_O_HOME":"\'x\'"',  # pull request 2049
        '"PBS_O_HOME":"say "hello""',  # pull request 830
    ],
)
def test_json_that_old_versions_broke_may_be_asked_for_as_text(value: str) -> None:
    with pytest.raises(Malformed):
        from_json(PBS_JOBS.replace('"PBS_O_HOME":"/home/alice"', value), "qstat", "Jobs")


@pytest.mark.parametrize("text", ["", "[]", "null", '{"Jobs":{}}', PBS_JOBS[:200], '"text"', "<html></html>"])
def test_other_answers_than_json_of_jobs_are_unknown(text: str) -> None:
    with pytest.raises(SourceError):
        from_json(text, "qstat", "Jobs")


def test_a_key_that_comes_twice_is_the_rest_of_the_same_object() -> None:
    """As in pull request 1033: the list of resources was closed and opened again."""
    text = PBS_JOBS.replace('"Variable_List":{', '"Resource_List":{"ngpus":1},"job_state":"R","Variable_List":{')
    (job,) = from_json(text, "qstat", "Jobs")
    assert (job.get("resource_list.ngpus"), job.get("resource_list.ncpus"), job.get("job_state")) == ("1", "4", "Q")


def test_plain_text_is_joined_where_it_was_folded() -> None:
    first, second = from_text(PLAIN, "qstat -f")
    assert first.get("resource_list.select").endswith(":fancy=a_very_long_value:other=x")
    assert (second.name, second.get("job_state")) == ("5[].scheduler", "B")


def test_a_line_break_in_a_variable_does_not_change_what_the_server_says() -> None:
    assert from_text(PLAIN, "qstat -f")[0].get("job_state") == "R"


def test_plain_text_that_was_cut_is_unknown() -> None:
    assert from_text("", "qstat -f") == []
    for text in (PLAIN[:-1], PLAIN[: len(PLAIN) // 2], "<html></html>\n\n", "qstat: something\n"):
        with pytest.raises(SourceError):
            from_text(text, "qstat -f")


def test_nodes_as_text_have_their_name_alone_in_a_line() -> None:
    text = (
        "w1\n     state = free\n     np = 4\n     jobs = 0/136.srv, 1/136.srv\n\nw2.example.org\n     state = down\n\n"
    )
    one, two = from_text(text, "pbsnodes -a", nodes=True)
    assert (one.name, one.get("np"), two.name, two.get("state")) == ("w1", "4", "w2.example.org", "down")
    with pytest.raises(SourceError):
        from_text("pbs_iff: cannot read reply\n\n", "pbsnodes -a", nodes=True)
