"""The version of this installation, which results and emitted code name."""

__version__ = "0.1.0"
