"""Services of the machine: files, memory, processes, signals, the workspace of a run."""
