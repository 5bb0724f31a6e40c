"""One group of operations: its maps and stages, its tiles and their costs, its schedule and addresses."""
