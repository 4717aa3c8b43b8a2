"""An absolute time decides no test: hypothesis has no deadline here. And the small configurations of most tests name
neither region nor flavour: nothing is said of that but in the tests of these warnings."""

from __future__ import annotations

import hypothesis
import pytest

from elastiq.plugins.cloud import ec2_rare_values

hypothesis.settings.register_profile("elastiq", deadline=None)
hypothesis.settings.load_profile("elastiq")


@pytest.fixture(autouse=True)
def says_nothing_of_what_is_left_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_region", "no_flavour"):
        monkeypatch.setattr(ec2_rare_values, name, lambda values: "")
