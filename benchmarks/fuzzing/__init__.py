"""Random mutations of what the project reads: neither a traceback nor a hang may come of them."""
