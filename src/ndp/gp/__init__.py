"""Gaussian processes in closed form."""

from ndp.core.old_names import old_names

__getattr__ = old_names("ndp.gp", {"GP": "ndp", "GPPosterior": "ndp"})
