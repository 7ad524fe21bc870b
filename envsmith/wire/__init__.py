"""Frozen dataclasses that cross a process or machine boundary. Portable: standard library, Python 3.8."""
