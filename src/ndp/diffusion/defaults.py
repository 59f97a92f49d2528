"""The noise levels of training, as plain numbers."""

# The range of sigma / alpha in training.
SMALLEST_RATIO, LARGEST_RATIO = 0.004, 80.0
# Mean and standard deviation of log(sigma / alpha) in training, for draws of a GP with noise 0.05.
LEVEL_LAW = (-1.7, 1.5)
