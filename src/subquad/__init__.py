"""Gauss-Newton training of very wide networks at a cost below width squared."""

__version__ = "0.1.0"
