"""Processes that are conditioned, and their posteriors."""
