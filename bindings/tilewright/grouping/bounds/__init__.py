"""Lower bounds on every grouping; proofs are in docs/bounds.md."""
