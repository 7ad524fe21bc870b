"""envsmith: an environment doctor and image builder for PyTorch + CUDA."""

__version__ = "0.1.0"
