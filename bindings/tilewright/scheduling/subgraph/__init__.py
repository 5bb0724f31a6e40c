"""One subgraph: which slices it needs, what its tiles and their orders take, and its best granularity."""
