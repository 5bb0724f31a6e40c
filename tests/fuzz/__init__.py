"""Attacks with a seed and a count; by hand for as long as one likes: ``python -m tests.fuzz``."""
