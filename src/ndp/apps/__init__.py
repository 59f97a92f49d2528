"""The command line, the playground, and what they share."""
