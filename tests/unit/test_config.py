"""A configuration that can be used: 1.0's keys, defaults, pools, and what is told about it."""

from __future__ import annotations

import base64
import dataclasses
import socket
from pathlib import Path

import pytest

from elastiq import config, keys, plugin_loader
from elastiq.interfaces import Resources, Terms
from elastiq.options import Kind
from elastiq.plugins.batch import htcondor_options
from elastiq.plugins.cloud import ec2_options
from elastiq.settings import Settings
from tests.unit.config_files import MINIMAL, load, with_ec2, write

# The keys and values of the example that elastiq 1.0 shipped.
OLD_FILE = """\
# settings for the daemon
[elastiq]
sleep_s = 5
check_queue_every_s = 15
check_vms_every_s = 45
check_vms_in_error_every_s = 10
waiting_jobs_threshold = 10
waiting_jobs_time_s = 100
n_jobs_per_vm = 4
idle_for_time_s = 3600
estimated_vm_deploy_time_s = 600
batch_plugin = htcondor
log_level = 0

[debug]
#dry_run_shutdown_vms = 1
#dry_run_boot_vms = 1

[quota]
min_vms = 0
max_vms = 3

[ec2]
api_url = https://dummy.ec2.server/ec2/
aws_access_key_id = my_username
aws_secret_access_key = my_password
image_id = ami-00000000
api_version = 2013-02-01
key_name =\x20
flavour =\x20
user_data_b64 =\x20

# found out by itself
#[substitute]
#ipv4 =
#ipv6 =
#fqdn =
"""


def test_the_example_of_elastiq_1_loads_as_it_is(tmp_path: Path) -> None:
    settings = load(tmp_path, OLD_FILE).settings
    assert settings.check_vms_in_error_every_s == 10
    assert (settings.waiting_jobs_threshold, settings.waiting_jobs_time_s) == (10, 100)
    assert (settings.n_jobs_per_vm, settings.idle_for_time_s) == (4, 3600)
    assert (settings.min_vms, settings.max_vms) == (0, 3)
    assert settings.log_level == "debug"
    assert not settings.dry_run_boot_vms and not settings.dry_run_shutdown_vms
    (pool,) = settings.pools
    assert (pool.name, pool.kind) == ("ec2", "ec2")
    assert pool.flavours == ("",)
    assert pool.networks == ("",)
    assert pool.options["api_url"] == "https://dummy.ec2.server/ec2/"
    assert pool.options["api_version"] == "2013-02-01"
    assert pool.options["aws_access_key_id"] == "my_username"
    assert pool.options["aws_secret_access_key"] == "my_password"
    assert pool.options["image_id"] == "ami-00000000"
    assert pool.options["key_name"] is None
    assert pool.options["user_data"] == b""


def test_an_old_file_gets_the_host_name_as_its_cluster_and_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "head1.example.org")
    loaded = load(tmp_path, OLD_FILE)
    assert loaded.settings.cluster_name == "head1"
    assert sum("cluster_name" in warning and "head1" in warning for warning in loaded.warnings) == 1


def test_a_file_of_elastiq_1_that_was_written_with_floats_and_colons_loads(tmp_path: Path) -> None:
    text = """\
    [elastiq]
    Sleep_S: 5.0
    n_jobs_per_vm: 4.0
    waiting_jobs_threshold = 2.
    waiting_jobs_time_s = 1e2
    static_workers = WN1.example.org, wn2
    idle_for_time_s = .5
    [debug]
    dry_run_boot_vms = 1.0
    dry_run_shutdown_vms = 0
    [quota]
    max_vms = 7.0
    [ec2]
    image_id = ami-1
    """
    settings = load(tmp_path, text).settings
    assert settings.n_jobs_per_vm == 4 and isinstance(settings.n_jobs_per_vm, int)
    assert settings.waiting_jobs_threshold == 2 and isinstance(settings.waiting_jobs_threshold, int)
    assert settings.waiting_jobs_time_s == 100 and settings.idle_for_time_s == 0.5
    assert settings.static_workers == ("wn1.example.org", "wn2")
    assert settings.max_vms == 7 and isinstance(settings.max_vms, int)
    assert settings.dry_run_boot_vms is True and settings.dry_run_shutdown_vms is False


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("0", "debug"),
        ("-1", "debug"),
        ("10", "debug"),
        ("11", "info"),
        ("20.0", "info"),
        ("30", "warning"),
        ("40", "error"),
        ("50", "critical"),
        ("99", "critical"),
        ("Debug", "debug"),
        ("INFO", "info"),
        ("warn", "warning"),
        ("Critical", "critical"),
    ],
)
def test_log_level_takes_names_in_any_case_and_the_old_numbers(tmp_path: Path, text: str, level: str) -> None:
    text = f"[elastiq]\nlog_level = {text}\n[ec2]\nimage_id = ami-1\n"
    assert load(tmp_path, text).settings.log_level == level


def test_what_the_file_leaves_out_has_the_defaults_of_elastiq_1(tmp_path: Path) -> None:
    settings = load(tmp_path, MINIMAL).settings
    old = {
        "sleep_s": 5,
        "check_queue_every_s": 15,
        "check_vms_every_s": 45,
        "check_vms_in_error_every_s": 20,
        "estimated_vm_deploy_time_s": 600,
        "waiting_jobs_threshold": 0,
        "waiting_jobs_time_s": 40,
        "n_jobs_per_vm": 4,
        "idle_for_time_s": 3600,
        "batch_plugin": "htcondor",
        "min_vms": 0,
        "max_vms": 3,
        "dry_run_boot_vms": False,
        "dry_run_shutdown_vms": False,
    }
    assert {key: getattr(settings, key) for key in old} == old


def test_the_core_declares_a_key_for_every_setting_and_no_other() -> None:
    declared = [option for section in ("elastiq", "quota", "broker", "debug") for option in keys.CORE[section]]
    fields = {field.name: field.default for field in dataclasses.fields(Settings)}
    made = {"pools", "batch_options", "extras", "schedules"}
    assert sorted(option.name for option in declared) == sorted(set(fields) - made)
    for option in declared:
        if option.name != "cluster_name":
            assert option.default == fields[option.name], option.name


def test_keys_that_are_absent_leave_the_choice_to_boto(tmp_path: Path) -> None:
    (pool,) = load(tmp_path, MINIMAL).settings.pools
    for key in ("region", "api_url", "aws_access_key_id", "aws_secret_access_key", "profile", "ca_bundle"):
        assert pool.options[key] is None
    assert pool.options["verify_ssl"] is True


def test_max_vms_can_be_unlimited(tmp_path: Path) -> None:
    assert load(tmp_path, MINIMAL + "[quota]\nmax_vms = Unlimited\n").settings.max_vms is None


def test_a_percent_sign_in_a_secret_is_a_percent_sign(tmp_path: Path) -> None:
    text = "aws_access_key_id = k\naws_secret_access_key = a%b%%c%(d)s#e;f\n"
    (pool,) = load(tmp_path, with_ec2(text)).settings.pools
    assert pool.options["aws_secret_access_key"] == "a%b%%c%(d)s#e;f"


def test_the_batch_section_is_typed_by_the_plugin(tmp_path: Path) -> None:
    text = """\
    [htcondor]
    pool = cm.example.org:9618
    schedds = s1.example.org, s2.example.org
    drain = no
    """
    options = load(tmp_path, with_ec2(text)).settings.batch_options
    assert options["pool"] == "cm.example.org:9618"
    assert options["schedds"] == ("s1.example.org", "s2.example.org")
    assert options["drain"] is False
    assert options["command_timeout_s"] == 45.0
    assert set(options) == {option.name for option in htcondor_options.OPTIONS}


# ----------------------------------------------------------------------------- pools


def test_a_further_pool_inherits_every_key_and_changes_some(tmp_path: Path) -> None:
    text = """\
    flavour = m5.large, m5a.large
    subnet_id = subnet-1 subnet-2
    tags = Project=physics, Owner=Jane Doe
    cpus = 2
    memory_mb = 7500
    [ec2:gpu]
    flavour = g5.xlarge
    gpus = 1
    max_vms = 2
    """
    ec2, gpu = load(tmp_path, with_ec2(text)).settings.pools
    assert (ec2.name, ec2.flavours, ec2.max_vms) == ("ec2", ("m5.large", "m5a.large"), None)
    assert gpu.kind == "ec2"
    assert (gpu.name, gpu.flavours, gpu.max_vms) == ("gpu", ("g5.xlarge",), 2)
    assert gpu.networks == ec2.networks == ("subnet-1", "subnet-2")
    assert gpu.options["tags"] == {"Project": "physics", "Owner": "Jane Doe"}
    assert ec2.capacity == Resources(cpus=2, memory_mb=7500)
    assert gpu.capacity == Resources(cpus=2, memory_mb=7500, gpus=1)
    assert gpu.site == ec2.site
    assert len(ec2.offers()) == 4


def test_the_pool_without_a_name_is_first_wherever_it_stands(tmp_path: Path) -> None:
    text = "[elastiq]\ncluster_name=c\n[ec2:b]\nflavour=x\n[ec2:a.1_2-3]\n[ec2]\nimage_id=ami-1\n"
    assert [pool.name for pool in load(tmp_path, text).settings.pools] == ["ec2", "b", "a.1_2-3"]


def test_without_a_section_ec2_the_named_pools_stand_for_themselves(tmp_path: Path) -> None:
    text = "[elastiq]\ncluster_name=c\n[ec2:a]\nimage_id=ami-1\n[ec2:b]\nimage_id=ami-2\n"
    pools = load(tmp_path, text).settings.pools
    assert [(pool.name, pool.options["image_id"]) for pool in pools] == [("a", "ami-1"), ("b", "ami-2")]


def test_an_empty_value_in_a_pool_takes_back_what_it_inherits(tmp_path: Path) -> None:
    text = "subnet_id = subnet-1\ncpus = 4\nkey_name = k\n[ec2:b]\nsubnet_id =\ncpus =\nkey_name =\n"
    _, pool = load(tmp_path, with_ec2(text)).settings.pools
    assert pool.networks == ("",)
    assert pool.capacity.cpus is None
    assert pool.options["key_name"] is None


@pytest.mark.parametrize(
    ("inherited", "own", "gone"),
    [
        ("user_data_b64 = aGk=", "user_data_file = data", "user_data_b64"),
        ("user_data_file = data", "user_data_b64 = aGk=", "user_data_file"),
        ("subnet_id = s-1", "network_interfaces = s-2, s-3", "subnet_id"),
        ("network_interfaces = s-2, s-3", "subnet_id = s-1", "network_interfaces"),
        ("aws_access_key_id = k\naws_secret_access_key = s", "profile = p", "aws_secret_access_key"),
        ("profile = p", "aws_access_key_id = k\naws_secret_access_key = s", "profile"),
    ],
)
def test_a_key_of_a_pool_replaces_the_inherited_one_that_it_excludes(
    tmp_path: Path, inherited: str, own: str, gone: str
) -> None:
    (tmp_path / "data").write_bytes(b"hello")
    _, pool = load(tmp_path, with_ec2(f"{inherited}\n[ec2:b]\n{own}\n")).settings.pools
    assert not pool.options.get(gone)


def test_pools_with_the_same_endpoint_and_key_are_one_site_and_others_are_not(tmp_path: Path) -> None:
    text = """\
    region = r-1
    aws_access_key_id = k
    aws_secret_access_key = s
    [ec2:same]
    flavour = m
    [ec2:region]
    region = r-2
    [ec2:key]
    aws_access_key_id = k2
    aws_secret_access_key = s2
    [ec2:url]
    api_url = https://cloud.example.org:8773/services/Cloud
    """
    pools = {pool.name: pool for pool in load(tmp_path, with_ec2(text)).settings.pools}
    assert pools["same"].site == pools["ec2"].site
    assert len({pool.site for pool in pools.values()}) == 4
    assert pools["url"].site.startswith("cloud.example.org:8773")


def test_the_fingerprint_follows_what_decides_which_jobs_run_and_nothing_else(tmp_path: Path) -> None:
    def fingerprint(lines: str) -> str:
        return load(tmp_path, with_ec2(lines)).settings.pools[0].fingerprint

    plain = fingerprint("")
    assert plain == fingerprint("") and 8 <= len(plain) <= 16
    changes = (
        "flavour = m",
        "flavour = m, n",
        "flavour = n, m",
        "cpus = 2",
        "memory_mb = 2",
        "user_data_b64 = aGk=",
        "subnet_id = s",
        "network_interfaces = s",
        "security_group_ids = g",
        "root_disk_gb = 9",
        "worker_ad = A = 1",
        "worker_ad = A = 2",
        "reserve_memory_mb = 2",
        "reserve_disk_mb = 2",
    )
    seen = {fingerprint(change) for change in changes}
    assert len(seen) == len(changes) and plain not in seen
    for same in (
        "read_timeout_s = 9",
        "min_vms = 1",
        "max_vms = 2",
        "key_name =",
        "min_idle_vms = 1",
        "priority = 2",
        "worker_ad =",
    ):
        assert fingerprint(same) == plain
    assert load(tmp_path, MINIMAL.replace("ami-1", "ami-2")).settings.pools[0].fingerprint != plain


def test_a_pool_never_shows_its_secrets(tmp_path: Path) -> None:
    text = "aws_access_key_id = k\naws_secret_access_key = sesame\nuser_data_b64 = c2VzYW1l\n"
    loaded = load(tmp_path, with_ec2(text))
    assert "sesame" not in repr(loaded) + str(loaded.settings.pools) and "c2VzYW1l" not in repr(loaded)


def test_a_pool_has_its_own_terms_where_it_says_so_and_inherits_the_rest(tmp_path: Path) -> None:
    text = """\
    idle_for_time_s = 60
    min_idle_vms = 1
    priority = 2.5
    reserve_memory_mb = 400
    [ec2:b]
    idle_for_time_s =
    min_idle_vms = 0
    estimated_vm_deploy_time_s = 1200
    n_jobs_per_vm = 8
    reserve_disk_mb = 2e3
    max_vm_lifetime_s = 86400
    idle_action = Stop
    """
    ec2, b = load(tmp_path, with_ec2(text)).settings.pools
    assert ec2.terms == Terms(idle_for_time_s=60, min_idle_vms=1, priority=2.5, reserve_memory_mb=400)
    assert b.terms == Terms(
        estimated_vm_deploy_time_s=1200,
        n_jobs_per_vm=8,
        priority=2.5,
        reserve_memory_mb=400,
        reserve_disk_mb=2000,
        max_vm_lifetime_s=86400,
        idle_action="stop",
    )
    assert not set(ec2.options) & set(vars(Terms()))


@pytest.mark.parametrize(
    ("keys", "waits_s", "spares"),
    [
        ("", 40.0, [0, 0]),
        ("prefer = cost\n", 40.0, [0, 0]),
        ("waiting_jobs_time_s = auto\n", 0.0, [0, 0]),
        ("waiting_jobs_time_s = Auto\nprefer = balanced\n", 0.0, [0, 0]),
        ("waiting_jobs_time_s = auto\nprefer = wait\n", 0.0, [1, 0]),
        ("waiting_jobs_time_s = 7\nprefer = wait\n", 7.0, [1, 0]),
        ("waiting_jobs_time_s = auto\nprefer = cost\n", 120.0, [0, 0]),
    ],
)
def test_what_is_preferred_holds_where_the_file_says_no_number(
    tmp_path: Path, keys: str, waits_s: float, spares: list[int]
) -> None:
    settings = load(tmp_path, with_ec2("[ec2:b]\nimage_id = ami-2\n", keys)).settings
    assert settings.waiting_jobs_time_s == waits_s
    assert [pool.terms.min_idle_vms for pool in settings.pools] == spares


@pytest.mark.parametrize("spares", [0, 2])
def test_a_number_of_spares_is_kept_whatever_is_preferred(tmp_path: Path, spares: int) -> None:
    settings = load(tmp_path, with_ec2(f"min_idle_vms = {spares}\n", "prefer = wait\n")).settings
    assert settings.pools[0].terms.min_idle_vms == spares


def test_what_a_pool_does_not_say_is_as_the_cluster_has_it(tmp_path: Path) -> None:
    text = "idle_for_time_s = 0\n[ec2:b]\nidle_for_time_s =\nestimated_vm_deploy_time_s = 9\nn_jobs_per_vm = 1\n"
    head = "idle_for_time_s = 70\nestimated_vm_deploy_time_s = 80\nn_jobs_per_vm = 6\n"
    settings = load(tmp_path, with_ec2(text, head)).settings
    assert [settings.idle_for_time_s_of(pool) for pool in ("ec2", "b", "gone", "")] == [0, 70, 70, 70]
    assert [settings.estimated_vm_deploy_time_s_of(pool) for pool in ("ec2", "b", "gone")] == [80, 9, 80]
    assert [settings.n_jobs_per_vm_of(pool) for pool in ("ec2", "b", "gone")] == [6, 1, 6]
    other = dataclasses.replace(settings, pools=settings.pools[1:], n_jobs_per_vm=3)
    assert (other.pool("ec2"), other.n_jobs_per_vm_of("ec2"), other.n_jobs_per_vm_of("b")) == (None, 3, 1)


def test_each_line_of_a_worker_ad_is_an_attribute(tmp_path: Path) -> None:
    text = """\
    worker_ad = HasSingularity = true
        Site = "a, (b"
        # what a comment is here, too
        START =  (TARGET.Owner == "x") && size({1, 2}) > 1
    [ec2:b]
    worker_ad =
        HasGPU=true
    [ec2:c]
    worker_ad =
    """
    ec2, b, c = load(tmp_path, with_ec2(text)).settings.pools
    lines = ("HasSingularity = true", 'Site = "a, (b"', 'START =  (TARGET.Owner == "x") && size({1, 2}) > 1')
    assert (ec2.terms.worker_ad, b.terms.worker_ad, c.terms.worker_ad) == (lines, ("HasGPU=true",), ())


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("", ("cheapest",)),
        ("policy = balance", ("balance",)),
        ("policy = Priority, least-waste cheapest", ("priority", "least-waste", "cheapest")),
    ],
)
def test_the_policies_hold_in_their_order(tmp_path: Path, text: str, policy: tuple[str, ...]) -> None:
    assert load(tmp_path, MINIMAL + f"[broker]\n{text}\n").settings.policy == policy


def test_cool_downs_and_consolidation_are_off_until_they_are_set(tmp_path: Path) -> None:
    def chosen(head: str) -> tuple[bool, float, float, float]:
        s = load(tmp_path, with_ec2("", head)).settings
        return s.consolidate, s.cooldown_after_launch_s, s.cooldown_after_end_s, s.cooldown_after_failure_s

    assert chosen("") == (False, 0, 0, 0)
    head = "consolidate = yes\ncooldown_after_launch_s = 1\ncooldown_after_end_s = 2\ncooldown_after_failure_s = 3\n"
    assert chosen(head) == (True, 1, 2, 3)


@pytest.mark.parametrize(
    ("text", "parameter"),
    [
        (None, None),
        ("lt-0123456789abcdef0", {"LaunchTemplateId": "lt-0123456789abcdef0"}),
        ("lt-0123abcd:3", {"LaunchTemplateId": "lt-0123abcd", "Version": "3"}),
        ("workers:$Latest", {"LaunchTemplateName": "workers", "Version": "$Latest"}),
        ("lt-workers", {"LaunchTemplateName": "lt-workers"}),
    ],
)
def test_a_launch_template_is_named_by_id_or_name_with_a_version(
    text: str | None, parameter: dict[str, str] | None
) -> None:
    assert ec2_options.launch_template({"launch_template": text}) == parameter


def test_the_sections_of_another_cloud_follow_the_same_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "nimbus_of_test.py"
    module.write_text(
        "from elastiq.interfaces import Cloud\n"
        "from elastiq.options import Kind, Option\n"
        "class Nimbus(Cloud):\n"
        "    kind = 'nimbus'\n"
        "    OPTIONS = (Option('template', Kind.INT, required=True),)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    group = {**plugin_loader.BUILT_IN[plugin_loader.CLOUD_GROUP], "nimbus": "nimbus_of_test:Nimbus"}
    monkeypatch.setitem(plugin_loader.BUILT_IN, plugin_loader.CLOUD_GROUP, group)
    text = "[nimbus:big]\nflavour = xl\n[nimbus]\ntemplate = 7\nmax_vms = 2\n"
    ec2, nimbus, big = load(tmp_path, with_ec2(text)).settings.pools
    assert (nimbus.kind, nimbus.name, nimbus.site) == ("nimbus", "nimbus", "nimbus")
    assert (big.kind, big.name, big.flavours, big.max_vms) == ("nimbus", "big", ("xl",), 2)
    assert big.options == {"template": 7, "user_data": b""}
    assert ec2.kind == "ec2"


def test_a_launch_template_can_stand_for_the_image(tmp_path: Path) -> None:
    text = "[elastiq]\ncluster_name=c\n[ec2]\nlaunch_template = workers:3\n"
    assert load(tmp_path, text).settings.pools[0].options["image_id"] is None


# ----------------------------------------------------------------------------- told


def test_the_keys_that_were_set_are_told_without_secrets(tmp_path: Path) -> None:
    text = """\
    aws_access_key_id = AKIDEXAMPLE
    aws_secret_access_key = open sesame
    aws_session_token = token123
    user_data_b64 = c2VzYW1l
     c2VzYW1l
    proxy = http://me:pw123@proxy:3128
    tags = A=1
    [ec2:b]
    flavour = m
    """
    lines = load(tmp_path, with_ec2(text)).set_keys
    assert lines == [
        "elastiq.cluster_name = c",
        "ec2.image_id = ami-1",
        "ec2.aws_access_key_id = AKIDEXAMPLE",
        "ec2.aws_secret_access_key = ***",
        "ec2.aws_session_token = ***",
        "ec2.user_data_b64 = ***",
        "ec2.proxy = http://***@proxy:3128",
        "ec2.tags = A=1",
        "ec2:b.flavour = m",
    ]


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        ("verify_ssl = no\n[ec2:a]\n[ec2:b]", 5, "[ec2] verify_ssl: is no: whoever is on the way can read"),
        ("[ec2:a]\nregion = r\nverify_ssl = off", 7, "[ec2:a] verify_ssl: is no: whoever is on the way can read"),
        ("[htcondor]\ndrain = 0", 6, "[htcondor] drain: is no: a job that starts right before"),
    ],
)
def test_what_gives_up_safety_is_warned_of_once_where_it_stands(
    tmp_path: Path, lines: str, line: int, said: str
) -> None:
    (warning,) = load(tmp_path, with_ec2(lines)).warnings
    assert warning.startswith(f"{tmp_path / 'elastiq.conf'}:{line}: {said}")


def test_the_safe_choice_is_not_warned_of(tmp_path: Path) -> None:
    assert load(tmp_path, with_ec2("verify_ssl = yes\n[htcondor]\ndrain = yes\n")).warnings == []


@pytest.mark.parametrize(
    ("mode", "lines", "warned"),
    [
        (0o600, "user_data_b64 = aGk=", False),
        (0o640, "user_data_b64 = aGk=", False),
        (0o644, "user_data_b64 = aGk=", True),
        (0o602, "user_data_b64 = aGk=", True),
        (0o644, "user_data_b64 =", False),
        (0o644, "proxy = http://me:pw123@proxy:3128", True),
        (0o644, "proxy = http://proxy:3128", False),
    ],
)
def test_a_file_with_a_secret_that_all_can_read_is_warned_of(
    tmp_path: Path, mode: int, lines: str, warned: bool
) -> None:
    path = write(tmp_path, with_ec2(lines), mode)
    assert bool(config.load(path).warnings) == warned


def test_a_user_data_file_that_all_can_read_is_warned_of(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(base64.b64encode(b"x"))
    data.chmod(0o640)
    assert load(tmp_path, with_ec2("user_data_file = data\n")).warnings == []
    data.chmod(0o644)
    (warning,) = load(tmp_path, with_ec2("user_data_file = data\n[ec2:b]\n")).warnings
    assert str(data) in warning


def test_the_section_of_another_batch_system_is_not_read_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = {**plugin_loader.BUILT_IN[plugin_loader.BATCH_GROUP], "slurm": "no.such.module:Slurm"}
    monkeypatch.setitem(plugin_loader.BUILT_IN, plugin_loader.BATCH_GROUP, group)
    loaded = load(tmp_path, with_ec2("[slurm]\nanything = 1\n"))
    assert ["[slurm]" in warning for warning in loaded.warnings] == [True]
    assert not any("slurm" in line for line in loaded.set_keys)


def test_the_file_may_begin_with_a_byte_order_mark_and_end_its_lines_as_windows_does(tmp_path: Path) -> None:
    path = tmp_path / "elastiq.conf"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert config.load(str(path)).settings.cluster_name == "c"


def test_the_paths_of_a_pool_are_relative_to_the_file_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "etc"
    home.mkdir()
    (home / "certs.pem").write_text("c")
    (home / "data").write_bytes(b"d")
    monkeypatch.chdir(tmp_path)
    paths = [option.name for option in ec2_options.OPTIONS if option.kind is Kind.PATH]
    assert sorted(paths) == ["ca_bundle", "credentials_file", "user_data_file"]
    pool = load(home, with_ec2("ca_bundle = certs.pem\nuser_data_file = data\n")).settings.pools[0]
    assert pool.options["ca_bundle"] == str(home / "certs.pem") and pool.options["user_data"] == b"d"
    absolute = load(home, with_ec2(f"ca_bundle = {home}/certs.pem\n")).settings.pools[0]
    assert absolute.options["ca_bundle"] == f"{home}/certs.pem"
    assert load(home, with_ec2("ca_bundle =\n")).settings.pools[0].options["ca_bundle"] is None
