"""The commands: what happens behind the names and options of dragoman/cli/main.py, and parts that they alone use."""
