"""Training: one loop, a state, a direction, a stopping rule."""

from subquad.training.api import METHODS, train
from subquad.training.result import Iteration, Predictor, TrainResult, load_result

__all__ = ["METHODS", "Iteration", "Predictor", "TrainResult", "load_result", "train"]
