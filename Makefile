.DEFAULT_GOAL := help
.PHONY: help install retrain check embeddings evaluate lineage prune differences datasets test test-all quick run-tests lint up down clean compare rollback

PYTHON ?= python3
VENV := .venv
# Runs a command with the environment of bidaflow: Prefect, Ray and MLflow are quiet and offline, and
# keep their state under .bidaflow.
WITH_ENV := $(VENV)/bin/python -m infra.environment
INSTALLED := $(VENV)/.installed
# Runs two test files (or groups of files) in parallel, with one thread each.
PYTEST := OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 30

DATASET ?=
TRAIN ?=
DEV ?=
VARIANTS ?=
EPOCHS ?=
VECTORS ?=
CORPUS ?=
METHOD ?=
NAME ?=

SEEDS ?=
ARGS ?=
comma := ,
VARIABLES := DATASET TRAIN DEV DATA VARIANTS EPOCHS VECTORS CORPUS METHOD NAME SEEDS \
             RUN FILE VERIFY YES RUNS ARGS
# Rejects command-line variables that a target does not take, because they would have no effect.
# Environment variables of these names are not rejected: they may belong to other programs.
allow_only = $(foreach name,$(filter-out $(1),$(VARIABLES)),\
        $(if $(and $($(name)),$(filter command,$(origin $(name)))),\
        $(error make $@ does not take $(name)=$(if $(1),; it takes $(addsuffix =,$(1)),; it takes no variables))))
RETRAIN_FLAGS := $(if $(DATASET),--data.dataset '$(DATASET)') \
         $(if $(TRAIN),--data.train-files '$(TRAIN)') $(if $(DEV),--data.dev-files '$(DEV)') \
         $(if $(VARIANTS),--variants '$(VARIANTS)') $(if $(EPOCHS),--training.epochs '$(EPOCHS)') \
         $(if $(VECTORS),--vectors.source '$(VECTORS)') $(if $(METHOD),--vectors.source '$(METHOD)') \
         $(if $(CORPUS),--vectors.corpus.files '$(CORPUS)') \
         $(ARGS)
EMBEDDINGS_FLAGS := $(if $(CORPUS),--corpus.files '$(CORPUS)') $(if $(DATASET),--corpus.dataset '$(DATASET)') \
         $(if $(METHOD),--embedding.method '$(METHOD)') $(if $(EPOCHS),--embedding.epochs '$(EPOCHS)') \
         $(if $(NAME),--name '$(NAME)') $(ARGS)
EVALUATE_FLAGS := $(if $(VECTORS),--vectors '$(VECTORS)') $(if $(DATASET),--dataset '$(DATASET)') $(ARGS)

help:     ## list the targets
	@grep -hE '^[a-z-]+: .*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12
	@printf '\nretrain takes DATASET=, TRAIN=, DEV=, VARIANTS=, EPOCHS=, VECTORS= (or METHOD= and CORPUS=) and ARGS="--flag value"; all flags:\n  make retrain ARGS=--help\n'

install: $(INSTALLED)  ## set up the environment (.venv)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bidaflow needs Python 3.11 or newer. Run: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

retrain: $(INSTALLED)  ## train the variants on a dataset, and promote the best one if it beats the champion
	$(call allow_only,DATASET TRAIN DEV VARIANTS EPOCHS VECTORS METHOD CORPUS ARGS)
	$(if $(and $(VECTORS),$(METHOD)),$(error VECTORS= and METHOD= both choose the word vectors. Set only one of them))
	@$(WITH_ENV) $(VENV)/bin/python -m flows.retrain $(RETRAIN_FLAGS)

check: $(INSTALLED)  ## validate a dataset without training on it, and report its errors: DATA=
	$(call allow_only,DATA ARGS)
	@$(WITH_ENV) $(VENV)/bin/python -m flows.check $(if $(DATA),--data.dataset '$(DATA)') $(ARGS)

lineage: $(INSTALLED)  ## show a run's inputs (RUN=, VERIFY=1 rehashes them), or the runs that used a file (FILE=)
	$(call allow_only,RUN FILE VERIFY)
	@$(WITH_ENV) $(VENV)/bin/python -m flows.commands.show_lineage \
	  $(if $(RUN),--run '$(RUN)') $(if $(FILE),--file '$(FILE)') $(if $(VERIFY),--verify)

prune: $(INSTALLED)  ## list outputs that no kept run refers to; YES=1 deletes them
	$(call allow_only,YES)
	@$(WITH_ENV) $(VENV)/bin/python -m flows.commands.prune $(if $(YES),--yes)

differences: $(INSTALLED)  ## compare the answers of two runs: RUNS=first,second
	$(call allow_only,RUNS)
	@$(WITH_ENV) $(VENV)/bin/python -m flows.commands.diff '$(RUNS)'

datasets: $(INSTALLED)  ## list the known datasets, corpora and vectors, and whether they are downloaded
	$(call allow_only,)
	@$(WITH_ENV) $(VENV)/bin/python -m flows.commands.list_datasets

embeddings: $(INSTALLED)  ## train word vectors on your own texts: CORPUS=, DATASET=, METHOD=, EPOCHS=, NAME=
	$(call allow_only,CORPUS DATASET METHOD EPOCHS NAME ARGS)
	@$(WITH_ENV) $(VENV)/bin/python -m flows.train_embeddings $(EMBEDDINGS_FLAGS)

evaluate: $(INSTALLED)  ## evaluate word vectors: VECTORS=first,second,…, DATASET=
	$(call allow_only,VECTORS DATASET ARGS)
	@$(WITH_ENV) $(VENV)/bin/python -m flows.evaluate_embeddings $(EVALUATE_FLAGS)

compare: $(INSTALLED)  ## compare variants over several seeds: SEEDS=0,1,2, DATASET=, VARIANTS=, VECTORS=
	$(call allow_only,DATASET VARIANTS SEEDS EPOCHS VECTORS ARGS)
	@$(WITH_ENV) $(VENV)/bin/python -m flows.compare_variants $(if $(DATASET),--data '{"dataset": "$(DATASET)"}') \
	  $(if $(VARIANTS),--variants '$(VARIANTS)') $(if $(SEEDS),--seeds '$(SEEDS)') \
	  $(if $(EPOCHS),--training.epochs '$(EPOCHS)') \
	  $(if $(VECTORS),--vectors '[{"source": "$(subst $(comma),"}$(comma) {"source": ",$(VECTORS))"}]') $(ARGS)

rollback: $(INSTALLED)  ## set the previous champion as champion again: DATASET=
	$(call allow_only,DATASET)
	@$(WITH_ENV) $(VENV)/bin/python -m flows.commands.rollback '$(or $(DATASET),tiny)'

test: $(INSTALLED)  ## run the linters and the tests (at most 15 minutes)
	@$(MAKE) --no-print-directory -j 2 lint run-tests SELECT="-m 'not full'"

test-all: $(INSTALLED)  ## like test, with full kill counts, all presets at full size and the benchmarks
	@$(MAKE) --no-print-directory -j 2 lint run-tests SELECT='--record benchmarks/results/test-all.json'

quick: $(INSTALLED)  ## like test, without the heavy tests (at most 3 minutes)
	@$(MAKE) --no-print-directory -j 2 lint run-tests SELECT="-m 'not heavy and not full'"

run-tests: $(INSTALLED)
	$(PYTEST) $(SELECT)

lint: $(INSTALLED)  ## check style, types and import rules
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache

up: $(INSTALLED)  ## start the Prefect and MLflow servers, their UIs and a worker; stop with Ctrl-C
	@$(WITH_ENV) $(VENV)/bin/python -m infra.services up

down: $(INSTALLED)  ## stop what `up` started
	@$(WITH_ENV) $(VENV)/bin/python -m infra.services down

clean:    ## delete all results (.bidaflow) and the environment (.venv)
	rm -rf .bidaflow $(VENV)
