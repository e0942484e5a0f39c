"""The command line: names and options of the commands, whose work is done in dragoman/commands."""
