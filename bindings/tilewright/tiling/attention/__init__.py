"""Attention on a hierarchy: scores, softmax and context as one step, whose scores stay in one memory."""
