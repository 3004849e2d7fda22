"""Training: one loop, a state, a direction, a stopping rule."""

from subquad.train.api import METHODS, train
from subquad.train.result import Iteration, Predictor, TrainResult, load_result

__all__ = ["METHODS", "Iteration", "Predictor", "TrainResult", "load_result", "train"]
