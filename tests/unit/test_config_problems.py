"""A configuration that cannot be used: every problem at once, each with its line, and no secret in any."""

from __future__ import annotations

import base64
import importlib.util
import os
import socket
from pathlib import Path

import pytest

from elastiq import config
from tests.unit.config_files import MINIMAL, load, problems, with_ec2


def test_every_problem_is_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """\
    [elastiq]
    cluster_name = c
    sleep_ss = 5
    check_queue_every_s = often
    idle_for_time_s = -1
    nonsense
    [qouta]
    min_vms = 1
    [quota]
    max_vms = 0
    [ec2]
    verify_ssl = perhaps
    """
    assert problems(tmp_path, text) == [
        "3: [elastiq] sleep_ss: is not a known key, did you mean `sleep_s`?",
        "4: [elastiq] check_queue_every_s: `often` is no number,"
        " write a number of seconds that is not negative (default 15)",
        "5: [elastiq] idle_for_time_s: `-1` is negative,"
        " write a number of seconds that is not negative, or auto (default 3600)",
        "6: [elastiq]: this line is neither `key = value` nor `[section]`; indent it if it continues the one above",
        "7: [qouta]: is not a known section, did you mean [quota]?",
        "10: [quota] max_vms: `0` is no limit, write a whole number above 0, or `unlimited`",
        "11: [ec2] image_id: is missing, set it (or launch_template)",
        "12: [ec2] verify_ssl: `perhaps` is neither, write yes or no",
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("check_vms_every_s = 0", "must be at least 0.1"),
        ("sleep_s = 0.09", "must be at least 0.1"),
        ("static_workers = ,", "is empty"),
        ("batch_plugin = htcondor\0", "holds a control character"),
        ("static_workers = a\x1bb", "holds a control character"),
        ("check_vms_every_s = 5 s", "`5 s` is no number"),
        ("check_vms_every_s = nan", "`nan` is no number"),
        ("check_vms_every_s = inf", "`inf` is no number"),
        ("check_vms_every_s = 1e999", "is no number"),
        ("check_vms_every_s = 1_0", "`1_0` is no number"),
        ("check_vms_every_s =", "is empty"),
        ("n_jobs_per_vm = 2.5", "`2.5` is not whole"),
        ("n_jobs_per_vm = 0", "must be above 0"),
        ("waiting_jobs_threshold = -3", "is negative"),
        ("log_level = nan", "write debug or info"),
        ("log_level = loud", "write debug or info or warning or error or critical"),
        ("log_format = xml", "write text or json"),
        ("quota_counts = some", "write owned or all"),
        ("cluster_name = a b", "letters, digits"),
        ("cluster_name = -a", "letters, digits"),
        ("batch_plugin = htcondr", "did you mean `htcondor`?"),
        ("batch_plugin = zzz", "known are: "),
        ("max_vms = 3", "it belongs to [quota]"),
        ("idle_for_times = 3", "did you mean `idle_for_time_s`?"),
        ("static_workers = a, b, a", "has `a` twice"),
        ("log_level = info\n    debug", "goes on in the next line"),
        ("consolidate = sometimes", "write yes or no"),
        ("cooldown_after_launch_s = -1", "is negative"),
        ("cooldown_after_end_s = soon", "is no number"),
        ("cooldown_after_failure_s = 1m", "is no number"),
        ("policy = cheapest", "it belongs to [broker]"),
        ("min_idle_vms = 2", "it belongs to [ec2]"),
        ("region = x", "it belongs to [ec2]"),
    ],
)
def test_a_wrong_value_of_the_core_is_told_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    (problem,) = problems(tmp_path, f"[ec2]\nimage_id = ami-1\n[elastiq]\n{line}\n")
    assert problem.startswith(f"4: [elastiq] {line.partition(' ')[0]}: ") and said in problem


@pytest.mark.parametrize(
    ("key", "zero_is_right"),
    [
        ("estimated_vm_deploy_time_s", False),
        ("drain_timeout_s", False),
        ("lost_after_s", False),
        ("intent_settle_s", False),
        ("waiting_jobs_time_s", True),
        ("idle_for_time_s", True),
        ("batch_settle_s", True),
        ("unused_room_s", True),
    ],
)
def test_a_time_of_zero_is_right_only_where_it_can_be_meant(tmp_path: Path, key: str, zero_is_right: bool) -> None:
    text = f"[elastiq]\n{key} = 0\n[ec2]\nimage_id = ami-1\n"
    if zero_is_right:
        assert getattr(load(tmp_path, text).settings, key) == 0
    else:
        assert problems(tmp_path, text) == [f"2: [elastiq] {key}: must be above 0"]


@pytest.mark.parametrize("key", ["sleep_s", "check_queue_every_s", "check_vms_every_s", "check_vms_in_error_every_s"])
def test_a_period_that_would_be_a_busy_loop_is_told(tmp_path: Path, key: str) -> None:
    for value in ("0", "0.0999", "1e-9"):
        text = f"[elastiq]\n{key} = {value}\n[ec2]\nimage_id = ami-1\n"
        assert problems(tmp_path, text) == [f"2: [elastiq] {key}: must be at least 0.1"]
    assert getattr(load(tmp_path, f"[elastiq]\n{key} = 0.1\n[ec2]\nimage_id = ami-1\n").settings, key) == 0.1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("flavour = ,,", "is empty"),
        ("subnet_id = ,", "is empty"),
        ("security_group_ids = , ,", "is empty"),
        ("network_interfaces = ,", "is empty"),
        ("tags = ,", "is empty"),
        ("api_url = https://cloud.example.org/a b", "is not a URL"),
        ("api_url = https://cloud.example .org/", "is not a URL"),
        ("proxy = http://proxy:3128 /", "is not a URL"),
        ("key_name = a\0b", "holds a control character"),
        ("user_data_file = a\0b", "holds a control character"),
        ("ca_bundle = a\0b", "holds a control character"),
        ("ca_bundle = .", "cannot be read"),
        ("ca_bundle = fifo", "cannot be read"),
        ("user_data_file = fifo", "it is not a regular file"),
        ("api_url = cloud.example.org", "is not a URL"),
        ("api_url = https://cloud:port/", "is not a URL"),
        ("api_url = https://[::1", "is not a URL"),
        ("tags = Project", "`Project` is not of the form Key=Value"),
        ("tags = A=1, A=2", "has the tag `A` twice"),
        ("tags = elastiq:head=x", "reserved"),
        ("tags = aws:x=x", "reserved"),
        ("tags = Name=x", "use name_template"),
        (f"tags = {', '.join(f'k{n}=v' for n in range(41))}", "are more than 40"),
        ("name_template = {cluster}-{host}", "knows only {cluster}, {pool}, {intent}"),
        ("name_template = {cluster!r}", "knows only"),
        ("name_template = {cluster", "unpaired"),
        ("name_template = {}", "knows only"),
        ("launch_template = lt-1:newest", "VERSION"),
        ("launch_template = :1", "ID-OR-NAME"),
        ("network_interfaces = s-1:", "is not of the form SUBNET"),
        ("network_interfaces = s-1:g-1+", "is not of the form SUBNET"),
        ("network_interfaces = :g-1", "is not of the form SUBNET"),
        ("imds_v2 = optional", "write unset or required"),
        ("root_disk_gb = 0", "must be above 0"),
        ("connect_timeout_s = 0", "must be above 0"),
        ("ca_bundle = /no/such/bundle.pem", "cannot be read"),
        ("cpus = 0", "must be above 0"),
        ("gpus = -1", "is negative"),
        ("min_idle_vms = -1", "is negative"),
        ("priority = high", "is no number"),
        ("estimated_vm_deploy_time_s = 0", "must be above 0"),
        ("max_vm_lifetime_s = 0", "must be above 0"),
        ("n_jobs_per_vm = 0", "must be above 0"),
        ("reserve_memory_mb = 10%", "is no number, write a number of MB"),
        ("reserve_disk_mb = -1", "write a number of MB"),
        ("idle_action = hibernate", "write terminate or stop"),
        ("worker_ad = HasSingularity", "`HasSingularity` is not of the form Name = expression"),
        ("worker_ad = Has Singularity = true", "is not of the form"),
        ("worker_ad = A == 1", "is not of the form"),
        ("worker_ad = A =?= 1", "is not of the form"),
        ("worker_ad = A =", "is not of the form"),
        ("worker_ad = A = 1\n    B", "`B` is not of the form"),
        ("worker_ad = A = 1\n    a = 2", "has `a` twice"),
        ("worker_ad = A = (1", "`A` has an unbalanced quote or bracket"),
        ("worker_ad = A = {(1})", "unbalanced"),
        ("worker_ad = A = 1)", "unbalanced"),
        ('worker_ad = A = "1', "unbalanced"),
        ("worker_ad = ,", "is empty"),
        ("max_vms = 0.5", "is no limit"),
        ("max_vms = none", "is no limit"),
        ("flavor = m5.large", "did you mean `flavour`?"),
        ("key_name = a\n    b", "goes on in the next line"),
        ("aws_access_key_id = AK", "is of no use without aws_secret_access_key, set both or neither"),
        ("aws_secret_access_key = SK", "is of no use without aws_access_key_id, set both or neither"),
        ("aws_session_token = T", "is of no use without aws_access_key_id"),
    ],
)
def test_a_wrong_value_of_a_pool_is_told_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (problem,) = problems(tmp_path, with_ec2(line))
    assert problem.startswith(f"5: [ec2] {line.partition(' ')[0]}: ") and said in problem


_POLICIES = "write cheapest or priority or balance or least-waste"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("policy = dearest", f"`dearest` is not known, {_POLICIES}"),
        ("policy = priority, dearest", f"`dearest` is not known, {_POLICIES}"),
        ("policy = priority, Priority", "has `priority` twice"),
        ("policy =", "is empty"),
        ("policy = ,", "is empty"),
        ("polices = balance", "did you mean `policy`?"),
    ],
)
def test_a_wrong_policy_is_told_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    (problem,) = problems(tmp_path, MINIMAL + f"[broker]\n{line}\n")
    assert problem.startswith(f"6: [broker] {line.partition(' ')[0]}: ") and said in problem


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("drain = maybe", "write yes or no"),
        ("command_timeout_s = 0", "must be above 0"),
        ("constraint = (a", "unbalanced"),
        ("query_method = soap", "write commands"),
        ("schedd = x", "did you mean `schedds`?"),
    ],
)
def test_a_wrong_value_of_the_batch_section_is_told_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    (problem,) = problems(tmp_path, MINIMAL + f"[htcondor]\n{line}\n")
    assert problem.startswith(f"6: [htcondor] {line.partition(' ')[0]}: ") and said in problem


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            "user_data_file = data\nuser_data_b64 = aGk=",
            "5: [ec2] user_data_file: cannot be set together with user_data_b64",
        ),
        ("subnet_id = a\nnetwork_interfaces = b", "6: [ec2] network_interfaces: cannot be set together with subnet_id"),
    ],
)
def test_two_keys_that_exclude_each_other_are_told_once(tmp_path: Path, lines: str, said: str) -> None:
    (tmp_path / "data").write_bytes(b"x")
    (problem,) = problems(tmp_path, with_ec2(lines))
    assert problem.startswith(said)


def test_a_profile_beside_a_key_is_told(tmp_path: Path) -> None:
    text = "aws_access_key_id = k\naws_secret_access_key = s\nprofile = p\n"
    assert all("together with profile" in problem for problem in problems(tmp_path, with_ec2(text)))


# ----------------------------------------------------------------------------- quotas


@pytest.mark.parametrize(
    ("head", "lines", "said"),
    [
        ("[quota]\nmin_vms = 4\n", "", "4: [quota] min_vms: 4 is above max_vms, which is 3"),
        ("", "min_vms = 2\nmax_vms = 1\n", "5: [ec2] min_vms: 2 is above the pool's max_vms, which is 1"),
        (
            "[quota]\nmax_vms = 3\n",
            "min_vms = 2\n[ec2:b]\n",
            "4: [quota] max_vms: 3 is below the pools' min_vms, which are 4 together",
        ),
        (
            "[quota]\nmin_vms = 3\n",
            "max_vms = 1\n[ec2:b]\nmax_vms = 1\n",
            "4: [quota] min_vms: 3 is above the pools' max_vms, which are 2 together",
        ),
        ("", "min_idle_vms = 2\nmax_vms = 1\n", "5: [ec2] min_idle_vms: 2 is above the pool's max_vms, which is 1"),
        (
            "[quota]\nmax_vms = 3\n",
            "min_idle_vms = 2\n[ec2:b]\n",
            "4: [quota] max_vms: 3 is below the pools' min_idle_vms, which are 4 together",
        ),
    ],
)
def test_limits_that_contradict_each_other_are_told(tmp_path: Path, head: str, lines: str, said: str) -> None:
    assert problems(tmp_path, with_ec2(lines, head)) == [said]


@pytest.mark.parametrize(
    ("head", "lines"),
    [
        ("[quota]\nmin_vms = 3\n", "max_vms = 1\n[ec2:b]\nmax_vms = 5\nimds_v2 = x\n"),
        ("[quota]\nmin_vms = 4\nmax_vms = x\n", ""),
        ("[quota]\nmin_vms = x\n", "max_vms = 1\n"),
    ],
)
def test_a_value_that_cannot_be_read_contradicts_none(tmp_path: Path, head: str, lines: str) -> None:
    (problem,) = problems(tmp_path, with_ec2(lines, head))
    assert "above" not in problem.replace("above 0", "")


def test_a_contradiction_is_told_beside_other_problems(tmp_path: Path) -> None:
    found = problems(tmp_path, with_ec2("max_vms = 1\n", "[debug]\ndry_run_boot_vms = x\n[quota]\nmin_vms = 2\n"))
    assert ["pools' max_vms" in problem for problem in found] == [False, True]


def test_limits_that_agree_are_no_problem(tmp_path: Path) -> None:
    text = with_ec2("min_vms = 2\nmax_vms = 2\n[ec2:b]\nmin_vms = 1\nmax_vms = unlimited\n", "[quota]\nmin_vms=3\n")
    settings = load(tmp_path, text).settings
    assert [(pool.min_vms, pool.max_vms) for pool in settings.pools] == [(2, 2), (1, None)]


# ----------------------------------------------------------------------------- sections


def test_a_file_without_a_pool_is_told(tmp_path: Path) -> None:
    assert problems(tmp_path, "[elastiq]\ncluster_name = c\n") == ["1: there is no pool, add a section [ec2]"]


def test_an_empty_file_is_told(tmp_path: Path) -> None:
    assert problems(tmp_path, "") == ["1: there is no pool, add a section [ec2]"]


@pytest.mark.parametrize("name", ["ec2:", "ec2:a b", "ec2:a:b", "ec2:ä"])
def test_a_pool_with_a_bad_name_is_told(tmp_path: Path, name: str) -> None:
    (problem,) = problems(tmp_path, MINIMAL + f"[{name}]\n")
    assert problem.startswith("5: [") and "a pool's name" in problem


def test_the_keys_of_a_pool_with_a_bad_name_are_checked_too(tmp_path: Path) -> None:
    first, second = problems(tmp_path, MINIMAL + "[ec2:a b]\ngpus = x\n")
    assert "a pool's name" in first and "gpus: `x` is no number" in second


def test_two_pools_of_one_name_are_told(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, MINIMAL + "[ec2:ec2]\n")
    assert problem == "5: [ec2:ec2]: there is another pool `ec2`, rename one"


def test_a_section_or_key_that_is_there_twice_is_told_with_both_lines(tmp_path: Path) -> None:
    text = MINIMAL + "Image_ID = ami-2\n[elastiq]\nsleep_s = 1\ncluster_name = d\n"
    assert problems(tmp_path, text) == [
        "5: [ec2] image_id: is there twice, first in line 4; remove one",
        "6: [elastiq]: is there twice, first in line 1; join",
        "8: [elastiq] cluster_name: is there twice, first in line 2; remove one",
    ]


@pytest.mark.parametrize(("name", "said"), [("htcondr", "did you mean `htcondor`?"), ("zzz", "known are: ")])
def test_an_unknown_batch_plugin_does_not_hide_what_is_wrong_in_a_batch_systems_section(
    tmp_path: Path, name: str, said: str
) -> None:
    text = f"[elastiq]\nbatch_plugin = {name}\n[htcondor]\npol = x\ncommand_timeout_s = 0\n[ec2]\nimage_id = ami-1\n"
    plugin, key, value = problems(tmp_path, text)
    assert plugin.startswith("2: [elastiq] batch_plugin: there is no plugin") and said in plugin
    assert key == "4: [htcondor] pol: is not a known key, did you mean `pool`?"
    assert value == "5: [htcondor] command_timeout_s: must be above 0"


def test_a_key_before_any_section_is_told(tmp_path: Path) -> None:
    assert problems(tmp_path, "max_vms = 3\n" + MINIMAL) == ["1: max_vms: stands before any [section], move it"]


SECTIONS = (
    "elastiq, quota, broker, debug, substitute, schedule, hooks, metrics, web, "
    "celery, command, gridengine, htcondor, pbs, slurm, torque, ec2"
)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("elastic", "did you mean [elastiq]?"),
        ("EC2", "did you mean [ec2]?"),
        ("ec3:gpu", "did you mean [ec2]?"),
        ("HTCondor", "did you mean [htcondor]?"),
        ("wholly-other", f"known are: {SECTIONS}"),
        ("hook", "did you mean [hooks]?"),
        ("metric", "did you mean [metrics]?"),
        ("wep", "did you mean [web]?"),
    ],
)
def test_an_unknown_section_is_told_with_the_nearest_known_one(tmp_path: Path, section: str, said: str) -> None:
    (problem,) = problems(tmp_path, MINIMAL + f"[{section}]\na = 1\n")
    assert problem.startswith(f"5: [{section}]: is not a known section") and said in problem


def test_a_problem_of_an_inherited_key_is_told_once_where_it_stands(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, with_ec2("imds_v2 = x\n[ec2:a]\n[ec2:b]\n"))
    assert problem.startswith("5: [ec2] imds_v2: ")


def test_pools_of_one_site_must_agree_on_how_it_is_reached(tmp_path: Path) -> None:
    text = "region = r\nconnect_timeout_s = 5\n[ec2:a]\n[ec2:b]\nconnect_timeout_s = 6\nproxy = http://me:pw123@p\n"
    found = problems(tmp_path, with_ec2(text))
    assert [problem.partition(":")[0] for problem in found] == ["9", "10"]
    assert "connect_timeout_s: differs from [ec2]" in found[0] and "proxy: differs" in found[1]
    assert "pw123" not in "".join(found)


# ----------------------------------------------------------------------------- files and secrets


def test_a_file_that_is_not_utf_8_is_told_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "elastiq.conf"
    path.write_bytes(MINIMAL.encode() + b"key_name = caf\xe9\n")
    with pytest.raises(config.ConfigError) as caught:
        config.load(path)
    assert caught.value.problems == [f"{path}:5: is not UTF-8, save the file in that encoding"]


@pytest.mark.parametrize("make", ["absent", "directory"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, make: str) -> None:
    path = tmp_path / "elastiq.conf"
    if make == "directory":
        path.mkdir()
    with pytest.raises(config.ConfigError) as caught:
        config.load(path)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{path}: cannot be read (")


def test_a_torn_file_of_zeros_is_told(tmp_path: Path) -> None:
    path = tmp_path / "elastiq.conf"
    path.write_bytes(b"\0" * 4096)
    with pytest.raises(config.ConfigError) as caught:
        config.load(path)
    assert len(caught.value.problems) == 2


SECRET = "c2VzYW1lc2VzYW1l"


@pytest.mark.parametrize(
    "lines",
    [
        f"user_data_b64 = {SECRET}!",
        f"user_data_b64 = {SECRET[:-1]}",
        f"user_data_b64 = é{SECRET}",
        f"user_data_b64 = aGk=\n{SECRET}",
        f"user_data_b64 = aGk=\n{SECRET}=",
        f"user_data_b64 = aGk=\n{SECRET}==",
        f"user_data_b64 = aGk=\n{SECRET}==\n{SECRET}==",
        f"user_data_b64 = aGk=\n{SECRET}+/{SECRET}=",
        f"user_data_64 = {SECRET}",
        f"aws_secret_access_key = {SECRET}",
        f"aws_secret_acces_key = {SECRET}",
        f"aws_secret_access_key = {SECRET}\n    {SECRET}",
        f"aws_secret_access_key {SECRET}",
        f"secret = {SECRET}",
        f"api_url = https://me:{SECRET}@cloud.example.org/",
        f"proxy = me:{SECRET}@proxy",
        f"proxy = ftp://me:{SECRET}@proxy",
    ],
)
def test_no_problem_tells_a_secret(tmp_path: Path, lines: str) -> None:
    found = " ".join(problems(tmp_path, with_ec2(lines))).lower()
    assert found
    for part in (SECRET, SECRET[:6], SECRET[-6:]):
        assert part.lower() not in found


def test_bad_base64_is_told_with_what_to_do(tmp_path: Path) -> None:
    assert problems(tmp_path, with_ec2("user_data_b64 = %%%\n")) == [
        "5: [ec2] user_data_b64: is not base64, make it with `base64 -w0 FILE`"
    ]


def test_user_data_over_the_limit_is_told(tmp_path: Path) -> None:
    text = base64.b64encode(b"x" * 16_385).decode()
    (problem,) = problems(tmp_path, with_ec2(f"user_data_b64 = {text}\n"))
    assert problem.startswith("5: [ec2] user_data_b64: has 16385 bytes") and "16384" in problem


def test_a_user_data_file_that_is_missing_is_told(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, with_ec2("user_data_file = nowhere\n"))
    assert problem.startswith("5: [ec2] user_data_file: ") and "No such file" in problem
    assert str(tmp_path / "nowhere") in problem


def test_json_logs_without_the_library_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (problem,) = problems(tmp_path, "[elastiq]\ncluster_name=c\nlog_format = json\n[ec2]\nimage_id=ami-1\n")
    assert problem.startswith("3: [elastiq] log_format: ") and "python-json-logger" in problem


def test_the_error_as_text_is_all_its_problems(tmp_path: Path) -> None:
    error = config.ConfigError(["one", "two"])
    assert str(error) == "one\ntwo" and error.problems == ["one", "two"]


@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
def test_what_is_no_regular_file_is_refused_and_never_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "socket":
            listener.bind(str(path))
        else:
            path.symlink_to("/dev/zero")
        with pytest.raises(config.ConfigError) as refused:
            config.load(path)
        why = "No such device or address" if kind == "socket" else "it is not a regular file"
        said = f"{path}: cannot be read ({why}), check its name and permissions"
        assert refused.value.problems == [said]
        (problem,) = problems(tmp_path, with_ec2("user_data_file = x\n"))
        assert problem == f"5: [ec2] user_data_file: {said}"


def test_a_lifetime_shorter_than_a_boot_is_told(tmp_path: Path) -> None:
    said = "max_vm_lifetime_s: 599 is below estimated_vm_deploy_time_s, which is 600; raise it"
    assert problems(tmp_path, with_ec2("max_vm_lifetime_s = 599")) == [f"5: [ec2] {said}"]
    own = "max_vm_lifetime_s = 599\nestimated_vm_deploy_time_s = 300"
    assert load(tmp_path, with_ec2(own)).warnings == []


@pytest.mark.parametrize(
    ("pool", "quota", "whose"),
    [
        ("min_vms = 2\nmax_vms = 2", "", "the pool's"),
        ("min_vms = 2\nmax_vms = 3", "", ""),
        ("", "[quota]\nmin_vms = 2\nmax_vms = 2\n", "the cluster's"),
        ("min_vms = 2", "[quota]\nmax_vms = 2\n", "the cluster's"),
        ("min_vms = 2", "[quota]\nmax_vms = 3\n", ""),
    ],
)
def test_a_lifetime_that_no_replacement_has_room_beside_is_warned_of(
    tmp_path: Path, pool: str, quota: str, whose: str
) -> None:
    warnings = load(tmp_path, with_ec2(f"max_vm_lifetime_s = 86400\n{pool}", quota)).warnings
    told = [one.partition("[ec2] ")[2] for one in warnings]
    text = f"ends none that min_vms needs: no other fits beside it, raise {whose} max_vms above min_vms"
    assert told == ([f"max_vm_lifetime_s: {text}"] if whose else [])
