"""The exact search over the groups of a network."""
