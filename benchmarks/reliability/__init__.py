"""Attempts to break the library, in families: what was tried, and what held."""
