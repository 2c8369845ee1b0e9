.DEFAULT_GOAL := help
.PHONY: help install retrain test test-all quick run-tests lint up down clean

PYTHON ?= python3
VENV := .venv
INSTALLED := $(VENV)/.installed
PIP_INSTALL := $(VENV)/bin/python -m pip install --disable-pip-version-check -c constraints.txt
# Runs two test files (or groups of files) in parallel, with one thread each.
PYTEST := OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 30

# The variables that `make retrain` takes; ARGS holds further flags. The shell reads the others from
# its environment, and make does not expand them, so values with spaces, quotes and $ arrive whole.
VALUES := DATASET TRAIN DEV VARIANTS EPOCHS VECTORS METHOD CORPUS
RETRAIN_VARIABLES := $(VALUES) ARGS
option = $(if $($(1)),$(2) "$$$(1)")
RETRAIN_FLAGS = $(call option,DATASET,--data.dataset) $(call option,TRAIN,--data.train-files) \
                $(call option,DEV,--data.dev-files) $(call option,VARIANTS,--variants) \
                $(call option,EPOCHS,--training.epochs) $(call option,VECTORS,--vectors.source) \
                $(call option,METHOD,--vectors.source) $(call option,CORPUS,--vectors.corpus-files) \
                $(ARGS)

# Rejects variables on the command line that no target takes, because they would have no effect.
TAKEN := PYTHON $(if $(filter retrain,$(MAKECMDGOALS)),$(RETRAIN_VARIABLES)) \
         $(if $(filter run-tests,$(MAKECMDGOALS)),SELECT)
$(foreach name,$(filter-out $(TAKEN),$(.VARIABLES)),$(if $(filter command,$(origin $(name))),\
  $(error make $(or $(MAKECMDGOALS),help) does not take $(name)=. It takes $(addsuffix =,$(TAKEN)))))
$(foreach name,$(VALUES),$(if $(value $(name)),$(eval override export $(name) := $$(value $(name)))))

help:     ## list the targets
	@grep -hE '^[a-z-]+: .*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12
	@printf '\nretrain takes $(addsuffix =,$(RETRAIN_VARIABLES)).\nAll other commands: $(VENV)/bin/bidaflow --help\n'

install: $(INSTALLED)  ## set up the environment (.venv)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "bidaflow needs Python 3.11 to 3.13. Run: make install PYTHON=python3.13")'
	@echo 'Installing the environment in $(VENV). This takes a few minutes.'
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) torch==2.13.0
	$(PIP_INSTALL) -e '.[dev]'
	@touch $@

retrain: $(INSTALLED)  ## train the variants on a dataset, and promote the best one if it beats the champion
	$(if $(and $(VECTORS),$(METHOD)),$(error VECTORS= and METHOD= both choose the word vectors. Set only one of them))
	@$(VENV)/bin/python -m flows retrain $(RETRAIN_FLAGS)

test: $(INSTALLED)  ## run the linters and the tests (11 to 30 minutes on two cores)
	@$(MAKE) --no-print-directory -j 2 lint run-tests SELECT="-m 'not full'"

test-all: $(INSTALLED)  ## like test, with full kill counts, all presets at full size and the benchmarks
	@$(MAKE) --no-print-directory -j 2 lint run-tests SELECT='--record=benchmarks/results/test-all.json'

quick: $(INSTALLED)  ## like test, without the heavy tests (at most 3 minutes)
	@$(MAKE) --no-print-directory -j 2 lint run-tests SELECT="-m 'not heavy and not full'"

run-tests: $(INSTALLED)
	$(PYTEST) $(SELECT)

lint: $(INSTALLED)  ## check style, types and import rules
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache

up: $(INSTALLED)  ## open the Prefect and MLflow servers, their UIs and a worker; stop with Ctrl-C
	@$(VENV)/bin/python -m flows up

down: $(INSTALLED)  ## stop what `up` started
	@$(VENV)/bin/python -m flows down

clean:    ## delete all results (.bidaflow) and the environment (.venv)
	rm -rf .bidaflow $(VENV)
