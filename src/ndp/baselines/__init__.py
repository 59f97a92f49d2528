"""Neural processes to compare with, in the form of every other process. They need the extra `baselines`."""
