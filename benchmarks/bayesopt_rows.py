"""The rows of the optimisation experiment: which model, under which rule, from which weights."""

from pathlib import Path

import torch

from benchmarks.bayesopt import Row, all_at_once, one_by_one
from ndp.core.io.checkpoint import CONFIG, read_config
from ndp.gp.named import marginalised_optimisation_gp, optimisation_gp
from ndp.models.registry import read_model, shipped_folder
from ndp.optimise.thompson import PAPER_RULE, Rule
from ndp.processes.architectures import Kind
from ndp.processes.ndp import FEWEST_STEPS, NDP
from ndp.processes.refitted_gp import RefittedGP

FIXED, MARGINAL = "bo-fixed", "bo-marginal"  # priors, and the models that ship for them
DEFAULT = " (default rule)"
NDP_FIXED, NDP_MARGINAL, GPR = "NDP Fixed", "NDP Marginalised", "GPR"
EXACT_FIXED, EXACT_MARGINAL = "exact Fixed", "exact isotropic"
ANP, NP, RANDOM = "ANP", "NP", "Random"
NDP_DEFAULT, GPR_DEFAULT, EXACT_DEFAULT = (name + DEFAULT for name in (NDP_MARGINAL, GPR, EXACT_MARGINAL))
ROWS = (
    *(NDP_FIXED, NDP_MARGINAL, GPR, ANP, NP, RANDOM, EXACT_FIXED, EXACT_MARGINAL),
    *(NDP_DEFAULT, GPR_DEFAULT, EXACT_DEFAULT),
)


def chosen_rows(only: str) -> list[str]:
    """Names of rows from text such as "GPR, Random"; no text is all of them."""
    if not only:
        return list(ROWS)
    known = {name.lower(): name for name in ROWS}
    asked = [part.strip().lower() for part in only.split(",")]
    for part in asked:
        if part not in known:
            raise ValueError(f"there is no row {part!r}; there are: {', '.join(ROWS)}")
    return [known[part] for part in asked]


def make_row(name: str, dim: int, *, models: Path, device: torch.device) -> Row | str:
    """A row for functions of `dim` inputs, or a sentence that says what is missing for it."""
    rule = Rule() if name.endswith(DEFAULT) else PAPER_RULE
    match name.removesuffix(DEFAULT):
        case "Random":
            return Row(name, None, rule)
        case "GPR":
            return Row(name, one_by_one(RefittedGP()), rule)
        case "exact Fixed":
            return Row(name, one_by_one(optimisation_gp(), observation_noise=True), rule)
        case "exact isotropic":
            return Row(name, one_by_one(marginalised_optimisation_gp(), observation_noise=True), rule)
        case "NDP Fixed":
            return _network_row(name, rule, models / f"ndp-{FIXED}", dim, device, shipped=FIXED)
        case "NDP Marginalised":
            return _network_row(name, rule, models / f"ndp-{MARGINAL}", dim, device, shipped=MARGINAL)
        case "ANP" | "NP" as kind:
            return _network_row(name, rule, models / f"{Kind(kind.lower())}-{MARGINAL}-{dim}", dim, device)
    raise ValueError(f"there is no row {name!r}; there are: {', '.join(ROWS)}")


def _network_row(
    name: str, rule: Rule, folder: Path, dim: int, device: torch.device, *, shipped: str = ""
) -> Row | str:
    """A network from a folder, or else the one that comes with the package."""
    if not (folder / CONFIG).exists():
        if not shipped or not (shipped_folder(shipped) / CONFIG).exists():
            also = f", and no model {shipped} ships" if shipped else ""
            return f"{name} is left out: there is no model in {folder}{also}."
        folder = shipped_folder(shipped)
    weights = read_config(folder)["weights_sha256"][:12]
    model = read_model(folder).to(device)
    if model.input_dims is not None and dim not in model.input_dims:
        return f"{name} is left out for D = {dim}: {folder} is for {', '.join(map(str, model.input_dims))} inputs."
    if isinstance(model, NDP):
        return Row(name, all_at_once(model), rule, batched=True, weights=f"{weights}, {FEWEST_STEPS} steps")
    return Row(name, one_by_one(model), rule, weights=weights)
