"""Bayesian optimisation with a process that needs no fitting. It needs the extra `botorch`."""
