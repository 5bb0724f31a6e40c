"""What one solve is made of: options, the run and its shares of threads, what was found and proven."""
