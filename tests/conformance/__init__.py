"""The conformance suites: what every implementation of a contract must do, the simulated ones included."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, TypeVar

import pytest

from elastiq.interfaces import Check, Looks
from tests.looks import found

pytest.register_assert_rewrite("tests.conformance.batch", "tests.conformance.cloud")

Test = TypeVar("Test", bound=Callable[..., Any])


def needs(ability: str) -> Callable[[Test], Test]:
    """Mark a test of something that not every system can do."""

    def mark(test: Test) -> Test:
        test.needs = ability  # type: ignore[attr-defined]
        return test

    return mark


def assert_found_something(looks: Looks) -> None:
    """Every check is one that a person can use."""
    checks = found(looks)
    assert checks and {"ok", "warning", "error", "unknown"} >= {check.level for check in checks}
    for check in checks:
        assert isinstance(check, Check) and check.subject and check.text and "\n" not in check.text + check.remedy
        assert check.remedy or check.level in ("ok", "unknown"), check


class Conformance:
    """A suite. A subclass names in ``cannot`` what its system cannot do; those tests are not collected,
    so that nothing is skipped at run time and nothing passes without having looked."""

    cannot: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in dir(cls):
            if getattr(getattr(cls, name), "needs", None) in cls.cannot:
                setattr(cls, name, None)
