"""Exact searches for the number of processing elements and their splits."""
