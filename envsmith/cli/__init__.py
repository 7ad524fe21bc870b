"""The command line: reads argv, prints, exits. One module a command, thin."""
