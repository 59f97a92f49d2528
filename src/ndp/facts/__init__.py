"""Facts about a function beyond its observations: `posterior.given(*facts)` is a posterior that knows them.

from ndp.facts import Bounds, Monotone
told = ndp.load("universal").condition(x, y).given(Bounds(0, 1), Monotone())
"""

from ndp.facts.base import Fact as Fact
from ndp.facts.linear import Derivative as Derivative
from ndp.facts.linear import Difference as Difference
from ndp.facts.linear import Integral as Integral
from ndp.facts.linear import Mean as Mean
from ndp.facts.linear import Sum as Sum
from ndp.facts.observations import Censored as Censored
from ndp.facts.observations import Classes as Classes
from ndp.facts.observations import Counts as Counts
from ndp.facts.observations import Interval as Interval
from ndp.facts.observations import Likelihood as Likelihood
from ndp.facts.observations import Preference as Preference
from ndp.facts.observations import Quantile as Quantile
from ndp.facts.shapes import Bounds as Bounds
from ndp.facts.shapes import Convex as Convex
from ndp.facts.shapes import Monotone as Monotone
