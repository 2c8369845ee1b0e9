.DEFAULT_GOAL := help
.PHONY: help install retrain check embeddings judge lineage prune differences datasets test test-all quick run-tests lint up down clean compare rollback

PYTHON ?= python3
VENV := .venv
# Prefect, Ray and MLflow run quietly, offline, with their state under .bidaflow.
SETTLED := $(VENV)/bin/python -m infra.environment
INSTALLED := $(VENV)/.installed
# Two files of tests, or groups of files, at a time, one thread each.
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
# Refuses what is given on the command line beside the variables that a target takes: it would do
# nothing. The environment may hold variables of these names for other ends.
takes = $(foreach name,$(filter-out $(1),$(VARIABLES)),\
        $(if $(and $($(name)),$(filter command,$(origin $(name)))),\
        $(error make $@ takes no $(name)=$(if $(1),$(comma) but $(addsuffix =,$(1))))))
FLAGS := $(if $(DATASET),--data.dataset '$(DATASET)') \
         $(if $(TRAIN),--data.train-files '$(TRAIN)') $(if $(DEV),--data.dev-files '$(DEV)') \
         $(if $(VARIANTS),--variants '$(VARIANTS)') $(if $(EPOCHS),--training.epochs '$(EPOCHS)') \
         $(if $(VECTORS),--vectors.source '$(VECTORS)') $(if $(METHOD),--vectors.source '$(METHOD)') \
         $(if $(CORPUS),--vectors.corpus.files '$(CORPUS)') \
         $(ARGS)
EMBED := $(if $(CORPUS),--corpus.files '$(CORPUS)') $(if $(DATASET),--corpus.dataset '$(DATASET)') \
         $(if $(METHOD),--embedding.method '$(METHOD)') $(if $(EPOCHS),--embedding.epochs '$(EPOCHS)') \
         $(if $(NAME),--name '$(NAME)') $(ARGS)
JUDGE := $(if $(VECTORS),--vectors '$(VECTORS)') $(if $(DATASET),--dataset '$(DATASET)') $(ARGS)

help:     ## list the targets
	@grep -hE '^[a-z-]+: .*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12
	@printf '\nretrain takes DATASET=, TRAIN=, DEV=, VARIANTS=, EPOCHS=, VECTORS= (or METHOD= and CORPUS=) and ARGS="--flag value"; all flags:\n  make retrain ARGS=--help\n'

install: $(INSTALLED)  ## set up the environment (.venv)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

retrain: $(INSTALLED)  ## train the variants on a dataset, compare them, write a report
	$(call takes,DATASET TRAIN DEV VARIANTS EPOCHS VECTORS METHOD CORPUS ARGS)
	$(if $(and $(VECTORS),$(METHOD)),$(error VECTORS= and METHOD= both say which word vectors are meant: give one of them))
	@$(SETTLED) $(VENV)/bin/python -m flows.retrain $(FLAGS)

check: $(INSTALLED)  ## read data without training on them, and report what is wrong: DATA=
	$(call takes,DATA ARGS)
	@$(SETTLED) $(VENV)/bin/python -m flows.check $(if $(DATA),--data.dataset '$(DATA)') $(ARGS)

lineage: $(INSTALLED)  ## what a run was made of (RUN=, VERIFY=1 reads it all), or what a file is in (FILE=)
	$(call takes,RUN FILE VERIFY)
	@$(SETTLED) $(VENV)/bin/python -m flows.commands.show_lineage \
	  $(if $(RUN),--run '$(RUN)') $(if $(FILE),--file '$(FILE)') $(if $(VERIFY),--verify)

prune: $(INSTALLED)  ## say what no kept run refers to; YES=1 removes it
	$(call takes,YES)
	@$(SETTLED) $(VENV)/bin/python -m flows.commands.prune $(if $(YES),--yes)

differences: $(INSTALLED)  ## show where two runs' answers differ: RUNS=one,other
	$(call takes,RUNS)
	@$(SETTLED) $(VENV)/bin/python -m flows.commands.diff '$(RUNS)'

datasets: $(INSTALLED)  ## list the data that are known by name, and what of them is here
	$(call takes,)
	@$(SETTLED) $(VENV)/bin/python -m flows.commands.list_datasets

embeddings: $(INSTALLED)  ## train word vectors on your own texts: CORPUS=, DATASET=, METHOD=, EPOCHS=, NAME=
	$(call takes,CORPUS DATASET METHOD EPOCHS NAME ARGS)
	@$(SETTLED) $(VENV)/bin/python -m flows.train_embeddings $(EMBED)

judge: $(INSTALLED)  ## say what word vectors are worth: VECTORS=one or one,other, DATASET=
	$(call takes,VECTORS DATASET ARGS)
	@$(SETTLED) $(VENV)/bin/python -m flows.evaluate_embeddings $(JUDGE)

compare: $(INSTALLED)  ## train the variants from several seeds and compare them: SEEDS=0,1,2, VECTORS=
	$(call takes,DATASET VARIANTS SEEDS EPOCHS VECTORS ARGS)
	@$(SETTLED) $(VENV)/bin/python -m flows.compare_variants $(if $(DATASET),--data '{"dataset": "$(DATASET)"}') \
	  $(if $(VARIANTS),--variants '$(VARIANTS)') $(if $(SEEDS),--seeds '$(SEEDS)') \
	  $(if $(EPOCHS),--training.epochs '$(EPOCHS)') \
	  $(if $(VECTORS),--vectors '[{"source": "$(subst $(comma),"}$(comma) {"source": ",$(VECTORS))"}]') $(ARGS)

rollback: $(INSTALLED)  ## make the champion of before the champion again: DATASET=
	$(call takes,DATASET)
	@$(SETTLED) $(VENV)/bin/python -m flows.commands.rollback '$(or $(DATASET),tiny)'

test: $(INSTALLED)  ## check style, types and imports, and run the tests (at most 15 minutes)
	@$(MAKE) --no-print-directory -j 2 lint run-tests SELECT="-m 'not full'"

test-all: $(INSTALLED)  ## the same with full kill counts, all presets at full size and the benchmarks
	@$(MAKE) --no-print-directory -j 2 lint run-tests SELECT='--record benchmarks/results/test-all.json'

quick: $(INSTALLED)  ## the same without the heavy tests (at most 3 minutes)
	@$(MAKE) --no-print-directory -j 2 lint run-tests SELECT="-m 'not heavy and not full'"

run-tests: $(INSTALLED)
	$(PYTEST) $(SELECT)

lint: $(INSTALLED)  ## style, types, import rules
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache

up: $(INSTALLED)  ## open the Prefect and MLflow servers, their UIs and a worker; stop with Ctrl-C
	@$(SETTLED) $(VENV)/bin/python -m infra.services up

down: $(INSTALLED)  ## stop what `up` started
	@$(SETTLED) $(VENV)/bin/python -m infra.services down

clean:    ## remove all results and the environment
	rm -rf .bidaflow $(VENV)
