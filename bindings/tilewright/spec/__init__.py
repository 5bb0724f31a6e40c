"""What users describe: layers, networks, and the errors that refuse them."""
