"""What all tiers share: in CI a test that is skipped is a fault of CI.

There are two exceptions, since CI runs these tests twice: a test that needs root says so in the reason of
its skip ("needs root, ..."), one that root's rights would spoil says "needs an ordinary user, ...". And one for the
logs of real clusters: their terms keep them out of the project, and so out of CI ("ELASTIQ_TRACES names no ...").
"""

from __future__ import annotations

import logging
import os
import signal
from typing import Iterator

import pytest

RUN_BY_THE_OTHER = "needs an ordinary user" if os.geteuid() == 0 else "needs root"


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a shell: what the tests start would ignore Ctrl-C too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fail-on-skip", action="store_true", help="a skipped test fails the run (CI sets it)")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.config.getoption("--fail-on-skip"):
        return
    skipped = [report for report in reporter.stats.get("skipped", ()) if not _run_by_the_other(report)]
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.write_line("")
        reporter.write_line(
            f"{len(skipped)} skipped, and --fail-on-skip was given: that is a failure", red=True
        )


def _run_by_the_other(report: pytest.TestReport) -> bool:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    return reason.startswith((f"Skipped: {RUN_BY_THE_OTHER}", "Skipped: ELASTIQ_TRACES names no"))


@pytest.fixture(autouse=True)
def _the_log_speaks_as_before() -> Iterator[None]:
    """A test that silences the log for those after it spoils them."""
    log = logging.getLogger("elastiq")
    before = (log.level, log.disabled, log.propagate)
    yield
    assert (log.level, log.disabled, log.propagate) == before
