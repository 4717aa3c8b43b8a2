"""The daemon with one safeguard taken out: what the tests must notice."""
