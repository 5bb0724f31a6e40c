"""Many solves as a list of tasks: in threads, in processes, on a cluster, with a journal of what is done."""
