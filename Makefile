# One environment in .venv, made on first use and remade when pyproject.toml changes.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Four workers for the two cores of a small machine: in much of their time tests wait for clocks and processes, and more
# workers make them late for what they measure. Each takes one module after another, in the order of tests/dealing.py.
PYTEST_ARGS ?= -n 4 --dist loadfile --no-loadscope-reorder
# Bytecode is kept, whatever the environment says: the suite starts hundreds of interpreters, and every worker reads
# all the tests.
unexport PYTHONDONTWRITEBYTECODE
# What needs neither a server nor a browser nor seconds.
QUICK := tests/unit tests/conformance/test_frontier.py tests/simulation
QUICK_ARGS ?= -n 3 --dist worksteal -m 'not slow' -k 'not valkey and not redis and not cluster'

.PHONY: test quick lint types check format docs bench clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --editable '.[dev]'  # what is used is compiled when it is
	@touch $@

# In a fresh checkout every worker would compile every module, and so would the programs that tests start, all at the
# same time: two processes do it before. (For the tests' own process pytest compiles modules in its own way.)
COMPILE := $(BIN)/python -m pytest --collect-only -qq
tests/unit/__pycache__: | $(STAMP)
	@{ $(BIN)/python -m compileall -q src; $(COMPILE) tests/unit; } >/dev/null 2>&1 & \
	$(COMPILE) --ignore tests/unit >/dev/null 2>&1; wait

test: $(STAMP) tests/unit/__pycache__
	$(BIN)/python -m shoal.testing.install_chromium
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# The parts by themselves, two homes of the frontier and some hundred simulated worlds: within a minute.
quick: $(STAMP)
	$(BIN)/python -m pytest $(QUICK) $(QUICK_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

check: lint types test

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The documentation as a site: open site/index.html.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: $(STAMP)
	$(BIN)/pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build site
