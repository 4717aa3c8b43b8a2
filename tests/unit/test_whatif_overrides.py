"""Keys with other values: what is meant, what is refused, and what a simulation leaves out of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastiq.inifile import ConfigError
from elastiq.whatif.configuration import SHIPPED, Configuration
from elastiq.whatif.overrides import OverrideError

ROOT = Path(__file__).resolve().parents[2]
FILE = """\
[elastiq]
cluster_name = alice
idle_for_time_s = 600
batch_plugin = slurm
launch = no
log_format = json
static_workers = old1, old2
[quota]
max_vms = 10
[slurm]
slurm_conf = /nowhere/slurm.conf
[hooks]
no_such_key = 1
[ec2]
region = eu-west-1
image_id = ami-1
aws_access_key_id = AKIAEXAMPLE
aws_secret_access_key = s3cr3t
user_data_file = /nowhere/user-data
flavour = small, large
price = small=0.1, large=0.4
[ec2:gpu]
flavour = huge
idle_for_time_s = 60
max_vms = 2
ca_bundle = /nowhere/ca.pem
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "elastiq.conf"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(
    ("text", "section", "key"),
    [
        ("idle_for_time_s=300", "elastiq", "idle_for_time_s"),
        ("max_vms = 4", "quota", "max_vms"),
        ("ec2.flavour=small", "ec2", "flavour"),
        ("[ec2]flavour=small", "ec2", "flavour"),
        ("[ec2:gpu] max_vms=1", "ec2:gpu", "max_vms"),
        ("pool:gpu.max_vms=1", "ec2:gpu", "max_vms"),
        ("pool:ec2.max_vms=1", "ec2", "max_vms"),
        ("placement=oldest", "", "placement"),
        ("start = more-than-half", "", "start"),
        ("broker.policy=least-waste", "broker", "policy"),
    ],
)
def test_a_key_is_named_as_in_the_file(file: Path, text: str, section: str, key: str) -> None:
    change = Configuration(file).keys.change(text)
    assert (change.section, change.key) == (section, key)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("idle_for_tme_s=3", "--set idle_for_tme_s: there is no such key, did you mean idle_for_time_s?"),
        ("idle_for_time_s=soon", "--set idle_for_time_s=soon: `soon` is no number"),
        ("idle_for_time_s", "is not of the form key=value"),
        ("flavour=small", "several sections have this key, write one of ec2.flavour, ec2:gpu.flavour"),
        ("pool:cpu.max_vms=1", "there is no pool `cpu`, there are: ec2, gpu"),
        ("slurm.slurm_conf=x", "[slurm] has no part in a simulation, remove it"),
        ("qouta.max_vms=1", "there is no section [qouta], did you mean [quota]?"),
        ("quota.idle_for_time_s=1", "[quota] has no such key, write elastiq.idle_for_time_s"),
        ("ec2.flavor=x", "[ec2] has no such key, did you mean flavour?"),
    ],
)
def test_what_cannot_be_set_is_said_in_one_line(file: Path, text: str, said: str) -> None:
    with pytest.raises(OverrideError) as refused:
        Configuration(file).keys.change(text)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_values_that_do_not_go_together_name_what_was_set(file: Path) -> None:
    config = Configuration(file)
    with pytest.raises(OverrideError, match=r"with --set min_vms=11: \[quota\] min_vms: 11 is above max_vms"):
        config.with_changes([config.keys.change("min_vms=11")])


def test_a_change_is_in_the_settings_and_nowhere_else(file: Path) -> None:
    config = Configuration(file)
    before = config.with_changes([]).settings
    after = config.with_changes([config.keys.change("max_vms=4")]).settings
    assert (before.max_vms, after.max_vms) == (10, 4)
    assert after.idle_for_time_s == before.idle_for_time_s == 600


def test_neither_keys_nor_files_nor_the_batch_system_are_needed(file: Path) -> None:
    supposed = Configuration(file).with_changes([])
    (ec2, gpu) = supposed.settings.pools
    assert (ec2.flavours, gpu.flavours) == (("small", "large"), ("huge",))
    assert "s3cr3t" not in repr({**ec2.options, **gpu.options})
    assert supposed.settings.launch and not supposed.settings.extras


def test_what_is_left_out_is_said(file: Path) -> None:
    notes = " ".join(Configuration(file).with_changes([]).notes)
    assert "launch = no is left out" in notes and "static_workers are not simulated" in notes


def test_a_pool_that_has_a_value_of_its_own_is_named(file: Path) -> None:
    config = Configuration(file)
    notes = config.with_changes([config.keys.change("idle_for_time_s=5")]).notes
    assert any("[ec2:gpu] has a value of its own, which stays" in note for note in notes)


def test_a_file_that_the_daemon_refuses_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "elastiq.conf"
    path.write_text("[elastiq]\nidle_for_tme_s = 3\n[ec2]\nimage_id = ami-1\n")
    with pytest.raises(ConfigError, match="did you mean `idle_for_time_s`"):
        Configuration(path)


@pytest.mark.parametrize(
    ("section", "key", "now"),
    [("elastiq", "idle_for_time_s", "600"), ("elastiq", "waiting_jobs_time_s", "40"), ("quota", "max_vms", "10"),
     ("ec2", "max_vms", "unlimited"), ("ec2:gpu", "price", "small=0.1, large=0.4"), ("broker", "policy", "cheapest"),
     ("ec2", "key_name", "")],
)  # fmt: skip
def test_the_present_value_is_as_the_file_or_the_default_says(file: Path, section: str, key: str, now: str) -> None:
    assert Configuration(file).keys.now(section, key) == now


def test_a_value_that_is_the_present_one_is_no_change(file: Path) -> None:
    keys = Configuration(file).keys
    assert keys.same(keys.change("idle_for_time_s=600.0")) and not keys.same(keys.change("idle_for_time_s=60"))


# ----------------------------------------------------------------------------- sweeps


def test_several_sweeps_are_a_grid_in_their_order(file: Path) -> None:
    grid = Configuration(file).keys.grid(["max_vms=1,2", "idle_for_time_s=60, 300"])
    assert [" ".join(map(str, changes)) for changes in grid] == [
        "max_vms=1 idle_for_time_s=60", "max_vms=1 idle_for_time_s=300",
        "max_vms=2 idle_for_time_s=60", "max_vms=2 idle_for_time_s=300",
    ]  # fmt: skip


def test_values_that_are_lists_are_separated_by_semicolons(file: Path) -> None:
    grid = Configuration(file).keys.grid(["ec2.flavour=small; large; small, large"])
    assert [changes[0].value for changes in grid] == ["small", "large", "small, large"]


@pytest.mark.parametrize(
    ("sweeps", "said"),
    [
        (["max_vms="], "is not of the form key=value,value"),
        (["max_vms=1,none"], "`none` is no limit"),
        (["max_vms=1,2", "quota.max_vms=3"], "is swept twice"),
        (["max_vms=" + ",".join(map(str, range(1, 41))), "idle_for_time_s=" + ",".join(map(str, range(20)))],
         "40 x 20 values are 800 runs, at most 400 are made"),
    ],
)  # fmt: skip
def test_a_sweep_that_cannot_be_made_says_why(file: Path, sweeps: list[str], said: str) -> None:
    with pytest.raises(OverrideError) as refused:
        Configuration(file).keys.grid(sweeps)
    assert said in str(refused.value)


# ----------------------------------------------------------------------------- without a configuration


def test_what_is_taken_without_a_file_are_the_defaults_of_the_example() -> None:
    shipped, example = (
        Configuration(path).with_changes([]).settings for path in (SHIPPED, ROOT / "elastiq.conf.example")
    )
    left = {"cluster_name", "pools", "max_vms", "batch_options", "_by_name"}
    assert {key: value for key, value in vars(shipped).items() if key not in left} == {
        key: value for key, value in vars(example).items() if key not in left
    }
    assert shipped.max_vms == 20 and shipped.pools[0].capacity.cpus == 8


def test_prices_of_the_flavours_of_other_runs_are_passed_over_and_those_of_none_refused(file: Path) -> None:
    config = Configuration(file)
    large = config.with_changes([config.keys.change("ec2.flavour=large")]).settings.pools[0]
    assert (large.flavours, large.prices) == (("large",), {"large": 0.4})
    new = [config.keys.change("ec2.price=small=0.1, mid=0.2")]
    with pytest.raises(OverrideError, match="names mid, which is no pool's flavour"):
        config.with_changes(new)
    config.expect([config.keys.change("ec2.flavour=small, mid")])
    assert config.with_changes(new).settings.pools[0].prices == {"small": 0.1}
