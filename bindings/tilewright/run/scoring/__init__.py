"""How far the runs of a comparison got: scores, tables of them, a page."""
