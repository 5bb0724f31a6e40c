"""Plans that become better: partitions merged and split, sequences, recomputed operations, windows."""
