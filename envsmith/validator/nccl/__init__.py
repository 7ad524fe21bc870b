"""NCCL over the GPUs of this machine: verified, measured, read from its own words, and diagnosed when it hangs."""
