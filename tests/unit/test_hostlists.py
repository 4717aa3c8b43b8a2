"""Lists of hosts, as Slurm writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastiq.plugins.batch import hostlists


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("w1", ["w1"]),
        ("w1,w2", ["w1", "w2"]),
        ("w[1-3]", ["w1", "w2", "w3"]),
        ("w[2,4-5]", ["w2", "w4", "w5"]),
        ("w[08-11]", ["w08", "w09", "w10", "w11"]),
        ("cs[100,101,102]", ["cs100", "cs101", "cs102"]),
        ("w[1-2],login,x[7]-ib", ["w1", "w2", "login", "x7-ib"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("ip-10-0-0-7.ec2.internal", ["ip-10-0-0-7.ec2.internal"]),
        (" w1 , w2 ", ["w1", "w2"]),
        ("", []),
    ],
)
def test_every_host_of_a_list_is_named(text: str, names: list[str]) -> None:
    assert hostlists.expand(text) == names


@pytest.mark.parametrize("text", ["w[", "w[1", "w]", "w[]", "w[3-1]", "w[a-b]", "w[1-]", "w[1-2][", "w[1-999999999]"])
def test_what_is_no_list_of_hosts_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        hostlists.expand(text)


def test_a_list_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="more than"):
        hostlists.expand("a[1-1000]b[1-1000]")


@given(st.lists(st.integers(0, 500), min_size=1, max_size=20), st.integers(1, 4))
def test_a_list_of_single_numbers_is_that_list(numbers: list[int], width: int) -> None:
    text = f"n[{','.join(f'{number:0{width}d}' for number in numbers)}]"
    assert hostlists.expand(text) == [f"n{number:0{width}d}" for number in numbers]
