"""Host nouns: requests, matrix rows, plans, findings, certificates. No I/O."""
