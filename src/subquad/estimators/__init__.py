"""Estimators in the manner of scikit-learn, which choose their settings themselves."""
