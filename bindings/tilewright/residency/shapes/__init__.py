"""How a step is cut up: groups of operations, passes, strips, tiles, and what each shape takes and moves."""
