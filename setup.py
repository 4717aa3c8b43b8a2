"""Build with setuptools; the metadata is in pyproject.toml, but for the licence.

Setuptools before 77 (Debian 12 has 66) refuses pyproject.toml's `license = "Apache-2.0"`, later ones
deprecate the table that older ones want. This spelling works with both.
"""

from setuptools import setup

setup(license="Apache-2.0")
