"""One campaign per file: ``trial(random, scratch)`` attacks once, and raises what it finds."""
