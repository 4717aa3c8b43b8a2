"""Fake clouds, each speaking its dialect of EC2's language over HTTP, and whole lives of machines on them."""
