"""Files beside results: their schema, former format, pages of docs, contests and challenges."""
