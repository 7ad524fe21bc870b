"""The compatibility matrix in memory: loading, look-ups by GPU name, resolving, explaining."""
