"""From functions to weights."""
