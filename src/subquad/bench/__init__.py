"""Measurements behind `subquad bench`: each module returns one JSON object."""
