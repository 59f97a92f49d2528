"""The mathematics of diffusion: levels, objective, solvers, likelihood."""
