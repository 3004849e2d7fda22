"""Sketches of u ⊗ v that never form it, and the Walsh-Hadamard transform."""

from subquad.sketch.hadamard import fwht
from subquad.sketch.srht import TensorSRHT
from subquad.sketch.tensorsketch import TensorSketch

__all__ = ["TensorSRHT", "TensorSketch", "fwht"]
