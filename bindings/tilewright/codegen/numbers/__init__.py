"""The numbers of C projects: weights, inputs and outputs as integers, and how operations use them."""
