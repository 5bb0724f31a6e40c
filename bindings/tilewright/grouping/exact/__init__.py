"""The exact search for groupings; its face is ``models/grouping/exact.py``."""
