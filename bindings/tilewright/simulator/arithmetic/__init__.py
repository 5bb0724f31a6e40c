"""What networks compute, in floats and in integers: reference layers, executors, number formats."""
