"""An EC2 API whose answers are scripted, one for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ec2_server import EC2Server


@pytest.fixture(scope="module")
def listening() -> Iterator[EC2Server]:
    server = EC2Server()
    yield server
    server.close()


@pytest.fixture
def bare(listening: EC2Server) -> EC2Server:
    """Every answer has to be scripted, and nothing was asked yet."""
    listening.forget()
    return listening
