# Everything a newcomer runs. `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

START := $(shell date +%s)
VENV ?= .venv
BIN := $(VENV)/bin
REQS := deploy/requirements
CONFIG ?=
ARGS ?=
VERSION ?= 0.1.0
PYTHON_BASE ?= python:3.11-slim
SGLANG_BASE ?= lmsysorg/sglang:v0.5.23

# A wheel cache would double the disk used; set PIP_FLAGS= to keep one.
PIP_FLAGS ?= --no-cache-dir
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile $(PIP_FLAGS)

# One stamp per layer, named by the content it was made from: unchanged layers are skipped.
stamp = $(VENV)/.stamp-$(1)-$(firstword $(shell cat $(2) | cksum))
TORCH := $(call stamp,torch,$(REQS)/torch.txt)
ENGINE := $(call stamp,engine,$(REQS)/cpu-engine.txt)
PACKAGE := $(call stamp,package,pyproject.toml)
DEV := $(call stamp,dev,$(REQS)/dev.txt)
BENCH := $(call stamp,bench,$(REQS)/bench.txt)
LOADTESTS := $(call stamp,loadtests,$(REQS)/loadtests.txt)
SCENARIO ?= mixed

.PHONY: help programs serve engine-env dev-env bench-env loadtest-env test lint types format unit helm images compose-local dashboards-live docs bench-engine soak bench-gateway loadtest profile-gateway clean

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

serve: engine-env ## install what is missing, then serve SmolLM2 on http://127.0.0.1:8000 until Ctrl-C
	@exec $(BIN)/specserve serve --since $(START) --footprint $(VENV) $(if $(CONFIG),--config $(CONFIG)) $(ARGS)

test: dev-env lint types unit ## install what is missing, then run every check and test

lint: dev-env ## style and layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo

types: dev-env ## mypy --strict
	@$(BIN)/mypy

unit: dev-env loadtest-env programs ## every test, those on a real engine included; ARGS goes to pytest
	@$(BIN)/python -m pytest $(ARGS)

programs: dev-env ## unpack Prometheus and Chromium of Debian's packages into the cache, for tests; no root needed
	@$(BIN)/python deploy/debian/programs.py || echo "make: tests that need what is missing are skipped" >&2

format: dev-env ## rewrite the sources in the house style
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

helm: dev-env ## render, lint and validate the chart's examples
	@$(BIN)/python -m pytest tests/helm $(ARGS)

compose-local: engine-env ## run the services of docker-compose.yml as plain processes, without Docker
	@exec $(BIN)/python deploy/compose/without_docker.py

dashboards-live: dev-env programs ## ask every dashboard query of a Prometheus that watched real engines; 6 minutes
	@exec $(BIN)/python -m tests.deploy.dashboards_live

images: ## build the images with SBOM and provenance; PYTHON_BASE and SGLANG_BASE pin their bases, VERSION names the tag
	@for image in gateway engine-cpu engine-cuda; do \
	  case $$image in engine-cuda) base=$(SGLANG_BASE);; *) base=$(PYTHON_BASE);; esac; \
	  docker buildx build --sbom=true --provenance=mode=max --build-arg BASE=$$base \
	    --tag specserve/$$image:$(VERSION) --file deploy/docker/$$image.Dockerfile $(ARGS) .; \
	done

docs: dev-env ## rewrite what is generated: in README.md, in the chart, and the dashboards
	@$(BIN)/specserve reference README.md
	@$(BIN)/specserve reference helm/specserve/values.schema.json
	@$(BIN)/python deploy/grafana/write_dashboards.py

bench-engine: bench-env ## compare engine configurations on this machine
	@$(BIN)/specserve bench engine $(ARGS)

soak: bench-env ## 200 requests that lose tokens, aborts and retractions on poisoned slots
	@$(BIN)/specserve bench kv-soak $(ARGS)

bench-gateway: bench-env ## compare the gateway with its peers on this machine; installs them in the cache
	@$(BIN)/specserve bench gateway $(ARGS)

loadtest: loadtest-env ## five minutes of mixed traffic on real SGLang with a report; SCENARIO=spike, storm, sweep, soak
	@$(BIN)/python -m loadtests.run $(SCENARIO) $(ARGS)

profile-gateway: bench-env ## where the gateway's time goes, by cProfile; ARGS=cumtime sorts by whole calls
	@$(BIN)/python -m service.bench.gateway.profile $(ARGS)

clean: ## remove the environment and all caches of the checkout
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache bench-out

engine-env: $(PACKAGE)
dev-env: $(PACKAGE) $(DEV)
bench-env: $(PACKAGE) $(BENCH)
loadtest-env: $(PACKAGE) $(BENCH) $(LOADTESTS)

$(BIN)/python:
	@for python in $(PYTHON) python3.11 python3.12 python3.13 python3; do \
	  if "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then \
	    echo "creating $(VENV) with $$($$python --version)"; exec "$$python" -m venv $(VENV); \
	  fi; \
	done; echo "make: Python 3.11, 3.12 or 3.13 is needed; name one with PYTHON=" >&2; exit 1

$(TORCH): | $(BIN)/python
	@echo "installing torch"
	@$(PIP) -r $(REQS)/torch.txt
	@$(call renew,torch)

$(ENGINE): $(TORCH)
	@echo "installing SGLang"
	@$(PIP) --no-deps -r $(REQS)/cpu-engine.txt
	@$(call renew,engine)

$(PACKAGE): $(ENGINE)
	@echo "installing specserve"
	@$(PIP) --no-deps --editable .
	@$(call renew,package)

$(BENCH): $(ENGINE)
	@echo "installing plot tools"
	@$(PIP) --no-deps -r $(REQS)/bench.txt
	@$(call renew,bench)

$(LOADTESTS): $(ENGINE)
	@echo "installing Locust"
	@$(PIP) --no-deps -r $(REQS)/loadtests.txt
	@$(call renew,loadtests)

$(DEV): $(ENGINE)
	@echo "installing test tools"
	@$(PIP) --no-deps -r $(REQS)/dev.txt
	@$(call renew,dev)

renew = rm -f $(VENV)/.stamp-$(1)-* && touch $@
