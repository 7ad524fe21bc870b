"""Judge a snapshot by rules: pure functions of saved facts and the matrix, no I/O."""
