"""Torch modules that denoise."""
