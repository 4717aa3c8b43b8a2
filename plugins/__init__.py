"""Adapters to foreign systems; each is imported only when the configuration names it."""
