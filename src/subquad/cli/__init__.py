"""The ``subquad`` command: one file a command, heavy imports inside each."""
