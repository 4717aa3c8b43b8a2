"""Keys in a file of their own, as systemd hands them to the service: credentials_file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elastiq.config import ConfigError
from elastiq.exits import readable_by
from elastiq.interfaces import Pool
from tests.unit.config_files import load, with_ec2


@pytest.fixture(autouse=True)
def no_credentials_of_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)


def pool(home: Path, lines: str = "") -> Pool:
    return load(home, with_ec2("credentials_file = keys/elastiq-aws\n" + lines)).settings.pools[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys" / "elastiq-aws"
    path.parent.mkdir()
    path.write_text("[default]\naws_access_key_id=AKIAFILE\naws_secret_access_key=s3cr3t\n")
    return path


def test_the_file_is_found_beside_the_configuration(tmp_path: Path, file: Path) -> None:
    assert pool(tmp_path).options["credentials_file"] == str(file)


def test_what_systemd_gave_to_the_service_under_that_name_goes_before_a_file_that_it_may_not_read(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "run"
    given.mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(given))
    assert pool(tmp_path).options["credentials_file"] == str(file), "systemd gave none of that name"
    file.rename(given / file.name)
    assert pool(tmp_path).options["credentials_file"] == str(given / file.name)


def test_a_file_of_keys_that_everybody_can_read_is_warned_of_also_where_systemd_gives_a_copy(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "parents", property(lambda path: [path.parent]))  # pytest's own are for nobody else

    def warned() -> list[str]:
        return load(tmp_path, with_ec2(f"credentials_file = {file}\n")).warnings

    given = tmp_path / "run"
    given.mkdir()
    (given / file.name).write_text(file.read_text())
    for copies in ("", str(given)):
        monkeypatch.setenv("CREDENTIALS_DIRECTORY", copies or "/nonexistent")
        for folder, mode, exposed in ((0o755, 0o644, True), (0o755, 0o640, False), (0o700, 0o644, False)):
            file.chmod(mode)
            file.parent.chmod(folder)
            (one, *_) = [*warned(), ""]
            assert (f"credentials_file: {file} holds a secret and is open to all users" in one) is exposed


def test_the_site_is_the_same_for_the_service_and_for_who_reads_the_file_itself(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`elastiqctl plan` has to find the machines that the daemon keeps under the site's name."""
    itself = pool(tmp_path)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(file.parent))
    assert pool(tmp_path).site == itself.site
    assert pool(tmp_path, "profile = cms\n").site != itself.site != load(tmp_path, with_ec2("")).settings.pools[0].site


def test_a_file_that_is_not_there_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"elastiq\.conf:5: \[ec2\] credentials_file: cannot be read"):
        pool(tmp_path)


def test_of_a_file_that_is_there_it_is_told_what_keeps_it_from_being_read(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match=r"credentials_file: cannot be read \(Permission denied\), check"):
        pool(tmp_path)
    file.unlink()
    with pytest.raises(ConfigError, match=r"credentials_file: cannot be read \(No such file or directory\), check"):
        pool(tmp_path)
    file.mkdir()
    with pytest.raises(ConfigError, match=r"credentials_file: cannot be read \(it is not a regular file\), check"):
        pool(tmp_path)


def test_keys_are_in_the_configuration_or_in_a_file(tmp_path: Path, file: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be set together with credentials_file") as caught:
        pool(tmp_path, "aws_access_key_id = k\naws_secret_access_key = s3cr3t\n")
    assert "s3cr3t" not in str(caught.value)


def test_a_pool_with_a_file_of_its_own_does_not_inherit_the_keys(tmp_path: Path, file: Path) -> None:
    keys = "aws_access_key_id = k\naws_secret_access_key = s\n"
    first, second = load(tmp_path, with_ec2(f"{keys}[ec2:other]\ncredentials_file = keys/elastiq-aws\n")).settings.pools
    assert first.options["aws_access_key_id"] == "k" and second.options["aws_access_key_id"] is None
    assert second.options["credentials_file"] == str(file) and first.site != second.site


def test_no_secret_is_in_the_settings(tmp_path: Path, file: Path) -> None:
    loaded = load(tmp_path, with_ec2("credentials_file = keys/elastiq-aws\n"))
    assert "s3cr3t" not in repr(loaded) and "AKIAFILE" not in repr(loaded)


@pytest.mark.parametrize("has_systemd", [True, False])
def test_a_file_that_is_not_for_the_service_is_told_with_what_gives_it_to_the_service(
    monkeypatch: pytest.MonkeyPatch, has_systemd: bool
) -> None:
    """Also where systemd has given no credential at all, so that the environment says nothing of credentials."""
    monkeypatch.setattr(Path, "is_dir", lambda path: has_systemd and str(path) == "/run/systemd/system")
    line = "elastiq.conf:5: [ec2] credentials_file: cannot be read (Permission denied), check name and permissions"
    (told,) = readable_by([line])
    assert "chmod 640" in told and ("LoadCredential=NAME" in told) is has_systemd
