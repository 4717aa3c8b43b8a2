"""Clouds."""
