"""The room's own search."""
