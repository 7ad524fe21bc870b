"""`python -m envsmith`."""

from envsmith.cli.main import entry

if __name__ == "__main__":
    entry()
