"""What all tiers share: in CI a test that is skipped is a fault of CI."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fail-on-skip", action="store_true", help="a skipped test fails the run (CI sets it)")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.config.getoption("--fail-on-skip"):
        return
    skipped = len(reporter.stats.get("skipped", ()))
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.write_line("")
        reporter.write_line(f"{skipped} skipped, and --fail-on-skip was given: that is a failure", red=True)
