"""The commands, one file each: what happens behind the names and options of dragoman/cli/main.py."""
