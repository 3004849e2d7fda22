"""Wide networks: the model, its forward and backward passes, and a plain PyTorch twin."""

from subquad.network.widenet import WideNet

__all__ = ["WideNet"]
