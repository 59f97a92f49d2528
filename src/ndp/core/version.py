"""The version of the library, for whoever must not import it whole."""

__version__ = "0.2.0"
