"""Tests on real batch systems and a real EC2 API; see README.md here."""
