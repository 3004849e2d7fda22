"""Shared set-up: what has to be decided before PyTorch comes up."""

from subquad.kernels import short_waits

short_waits()
