"""The plan of a DSP as loop nests in C: a file with a function for each layer, and calls that move tiles."""
