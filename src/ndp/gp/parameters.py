"""Parameters of the Gaussian processes in the paper's experiments, as plain numbers."""

OBSERVATION_NOISE = 0.05
LENGTHSCALE = 0.25  # times sqrt(D)
# Matern-3/2 with a lengthscale that is log-normal about its median.
MARGINAL_NOISE = 1e-3
MEDIAN_LENGTHSCALE, LOG_STD_OF_LENGTHSCALE = 0.5, 0.5**0.5
# Matern-5/2 for Bayesian optimisation on [-1, 1]^D: one fixed lengthscale, or a log-normal one in every dimension.
OPTIMISATION_NOISE = 0.01
OPTIMISATION_LENGTHSCALE = 0.5
OPTIMISATION_MEDIAN, OPTIMISATION_LOG_STD = 1.0, 0.7
MINIMA_LENGTHSCALE = 0.15  # times D: functions on [-1, 1]^D with many minima
