"""Gram matrices of tensor-product rows, and regression with them."""

from subquad.gram.certificate import Certificate
from subquad.gram.jacobian import TensorJacobian
from subquad.gram.solve import METHODS, solve_gram

__all__ = ["METHODS", "Certificate", "TensorJacobian", "solve_gram"]
