"""Running methods on instances: reading, solving, checking, comparing."""
