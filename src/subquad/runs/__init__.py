"""Run folders: fitting a table into one, reading one back, and its report."""
