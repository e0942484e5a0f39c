"""Models of other toolkits become model folders, and model folders become theirs."""
