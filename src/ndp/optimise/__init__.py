"""Bayesian optimisation with a process that needs no fitting. `surrogate` needs the extra `botorch`."""
