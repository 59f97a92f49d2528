"""Where functions come from."""
