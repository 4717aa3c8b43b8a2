"""The conformance suites: what every implementation of a contract must do, the simulated ones included."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.conformance.batch", "tests.conformance.cloud")
