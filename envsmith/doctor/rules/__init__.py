"""One rule a file, named after its id and its problem; the explanation is the file's docstring."""
