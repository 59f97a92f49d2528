"""Models by their names, and the weights that ship."""

from ndp.core.old_names import old_names

_NAMED = "exact_process", "marginalised_gp", "minima_gp", "optimisation_gp", "regression_gp"
_REGISTRY = "export", "load_ndp", "models_for", "names", "shipped"
__getattr__ = old_names(
    "ndp.models",
    {"load": "ndp"} | dict.fromkeys(_NAMED, "ndp.gp.named") | dict.fromkeys(_REGISTRY, "ndp.models.registry"),
)
