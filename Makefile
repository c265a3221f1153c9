# One environment in .venv, made on first use and remade when pyproject.toml changes.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Two runs side by side, for the two cores of a small machine. The tests that start processes wait most of their time, and
# measure it: many at once. The others only compute: they step back (nice), and so take the time that is left. A worker
# takes one module after another, in the order of tests/dealing.py.
WAITING := tests/attacks tests/crash tests/docs tests/e2e tests/integration
WAITING_ARGS ?= -n 6
COMPUTING := tests $(WAITING:%=--ignore=%)
COMPUTING_ARGS ?= -n 2
COMPUTED := $(VENV)/computed.log
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder
# Bytecode is kept, whatever the environment says: the suite starts hundreds of interpreters, and every worker reads
# all the tests.
unexport PYTHONDONTWRITEBYTECODE
# What needs neither a server nor a browser nor seconds.
QUICK := tests/unit tests/conformance/test_frontier.py tests/simulation
QUICK_ARGS ?= -n 3 --dist worksteal -m 'not slow' -k 'not valkey and not redis and not cluster'

LOADED_RUNS ?= 5

.PHONY: test load quick lint types check format docs bench clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --editable '.[dev]'  # what is used is compiled when it is
	@touch $@

# In a fresh checkout every worker would compile every module, and so would the programs that tests start, all at the
# same time: two processes do it before. (For the tests' own process pytest compiles modules in its own way.)
COMPILE := $(BIN)/python -m pytest --collect-only -qq
tests/unit/__pycache__: | $(STAMP)
	@{ $(BIN)/python -m compileall -q src; $(COMPILE) $(COMPUTING); } >/dev/null 2>&1 & \
	$(COMPILE) $(WAITING) >/dev/null 2>&1; wait

test: $(STAMP) tests/unit/__pycache__
	$(BIN)/python -m shoal.testing.install_chromium
	@echo "tests that compute (shown when the others have ended), and tests that wait:"
	@nice -n 5 $(PYTEST) $(COMPUTING_ARGS) $(COMPUTING) >$(COMPUTED) 2>&1 & computing=$$!; \
	$(PYTEST) $(WAITING_ARGS) $(WAITING); waited=$$?; \
	wait $$computing; computed=$$?; cat $(COMPUTED); exit $$((waited ? waited : computed))

# The whole suite several times in a row beside two programs that never rest: what leans on a quick machine fails here.
load: $(STAMP) tests/unit/__pycache__
	@hogs=; trap 'kill $$hogs' EXIT; trap 'exit 1' INT TERM; \
	for n in 1 2; do $(BIN)/python -c 'while True: pass' & hogs="$$hogs $$!"; done; \
	for n in $$(seq $(LOADED_RUNS)); do \
		echo "run $$n of $(LOADED_RUNS):"; $(MAKE) --no-print-directory test || exit; \
	done

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
