"""Bayesian optimisation with models that need no fitting.

thompson.py         Thompson sampling: `minimise`, or `Thompson` one step at a time
joint_search.py     the paper's global optimisation with a joint model: the same calls
botorch.py          an NDP as a BoTorch model
default_model.py    the models that `minimise` uses when none is given
history.py, loop.py     the evaluations so far, and the loop that all optimisers share
"""
