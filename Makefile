# Set-up and every check, from a fresh machine with Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers

.PHONY: setup demo test peers lint types format clean

setup: $(VENV)/.ready

# torch goes first: with its pinned version pip takes the CPU build, without it several GB of CUDA.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: setup
	$(BIN)/subquad demo

test: setup
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup --durations 10

# Speed beside other ways to train, a rival package from PyPI included, which brings a good deal
# along (pytorch-lightning): it gets an environment of its own. ARGS="--quick" makes it short.
peers: $(PEERS)/.ready
	@$(PEERS)/bin/subquad bench peers $(ARGS)

# Here, too, the pinned torch goes first, so that the rival finds the CPU build in its place.
$(PEERS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[kernels]" torch-levenberg-marquardt
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(PEERS) build dist .pytest_cache .mypy_cache .ruff_cache
