"""The choice of groups: an exact cover of the operations, bounds from dual prices, the exact search."""
