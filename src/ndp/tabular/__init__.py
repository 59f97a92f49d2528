"""Tables as people have them, turned into numbers that a model of functions reads."""
