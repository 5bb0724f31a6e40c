"""What all rooms share: the contract of a room, the catalogue, the context of a run."""
