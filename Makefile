# The only entry: `make help` lists what there is. Every target sets up what it needs, on a machine that has only Python 3.11 and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEV_READY := $(VENV)/.ready-dev
RAY_READY := .venv-ray/.ready
PAGE_READY := $(VENV)/.ready-page
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
WORKERS ?= 2
CLUSTER_NAME = $(if $(NAME),--name $(NAME))
WITH = $(if $(filter 0,$(KUEUE)),--no-kueue) $(if $(filter 1,$(RAY)),--kuberay) $(if $(filter 1,$(YUNIKORN)),--yunikorn)
SPLIT = tests/cli/launching/test_launches.py tests/crash/test_jobs_survive.py tests/crash/test_managed_jobs_survive.py $(addprefix tests/guides/test_,checks_that_wait.py \
	job_controller_with_kueue.py launch_and_jobs_launch.py managed_job_controller.py priorities.py quota_and_status.py zero_configuration.py)

# Some machines set it. Without compiled files every server that a test starts compiles all of Fairway: 1.5 s of CPU instead of 0.4.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup dev demo kubectl test test-ray test-kuberay test-page pictures split operators pages pages-systemd fresh explore lint format bench bench-quick bench-cluster bench-ray conformance conformance-cluster kueue-suites cluster cluster-down test-cluster clean packages

help:            ## what can be made here
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | sort | awk -F'\t' '{printf "  make %-20s %s\n", $$1, $$2}'

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Fairway needs Python 3.11 or newer; '$(PYTHON)' is older. Try: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "'$(PYTHON)' cannot make virtual environments. Try: sudo apt install python3-venv" >&2; exit 1; }
	@echo "Setting up .venv ..."
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --editable .
	@touch $@

$(DEV_READY): $(READY)
	@echo "Adding the development tools to .venv ..."
	@$(INSTALL) --editable '.[dev]'
	@touch $@

setup: $(READY)  ## the virtual environment in .venv, with what Fairway needs to run
dev: $(DEV_READY) ## the same with the development tools

demo: $(READY)   ## quota, waiting, preemption and the way back: real jobs, live in the terminal
	@$(BIN)/python examples/demo.py

test: $(DEV_READY)   ## all tests; gets or builds kubectl where there is none
	KUBECTL="$$(tools/kubectl/get)" $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --ignore tests/pages --ignore tests/operators --ignore tests/cluster --ignore tests/ray_real --ignore tests/page
	@echo "Tests with targets of their own: make test-page (in Chromium, which it installs: apt-get install chromium), test-ray, operators, pages, pages-systemd, split, test-cluster; see make help."

$(RAY_READY): $(DEV_READY)
	@echo "Setting up .venv-ray, with Ray ..."
	@$(PYTHON) -m venv .venv-ray
	@.venv-ray/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,ray]'
	@touch $@

test-ray: $(RAY_READY) ## RayJobs on real Ray: a guide, a preemption, a killed server (about five minutes)
	KUBECTL="$$(tools/kubectl/get)" timeout 1500 .venv-ray/bin/python -m pytest tests/ray_real --ignore tests/ray_real/test_kuberay.py

test-kuberay: $(RAY_READY) ## the KubeRay operator on the embedded API; builds it with Go, once
	KUBECTL="$$(tools/kubectl/get)" timeout 900 .venv-ray/bin/python -m pytest tests/ray_real/test_kuberay.py

$(PAGE_READY): $(DEV_READY)
	@$(INSTALL) --editable '.[dev,page]'
	@touch $@

test-page: $(PAGE_READY) ## the web page in a real Chromium (about four minutes); installs Chromium with apt, or says how
	CHROMIUM="$$(tools/chromium/get)" && export CHROMIUM && timeout 900 $(BIN)/python -m pytest tests/page

pictures: $(PAGE_READY) ## the pictures of the web page in docs/images
	CHROMIUM="$$(tools/chromium/get)" && export CHROMIUM && FAIRWAY_PICTURES=docs/images $(BIN)/python -m pytest tests/page/test_pictures.py

operators: $(DEV_READY) ## operators that others wrote on the embedded API; builds them with Go, once
	KUBECTL="$$(tools/kubectl/get)" timeout 900 $(BIN)/python -m pytest tests/operators

cluster: $(DEV_READY) ## start a real Kubernetes on this machine, with Kueue (KUEUE=0: without, RAY=1: and KubeRay, YUNIKORN=1: and YuniKorn); NAME=, PORT=, CPUS= for another one
	@$(BIN)/python -m tools.cluster up $(CLUSTER_NAME) $(if $(PORT),--port $(PORT)) $(if $(CPUS),--cpus $(CPUS)) $(WITH)

cluster-down: $(DEV_READY) ## remove it: processes, mounts, namespaces, control groups, files (NAME= for another one)
	@$(BIN)/python -m tools.cluster down $(CLUSTER_NAME)

test-cluster: $(DEV_READY) ## tests on a real Kubernetes; starts one if none is up (KUBELET=0: on a control plane alone, RAY=1: those with KubeRay, YUNIKORN=1: those with YuniKorn)
	@$(BIN)/python -m tools.cluster test $(CLUSTER_NAME) $(if $(filter 0,$(KUBELET)),--no-kubelet) $(WITH) $(TESTS)

kueue-suites: $(DEV_READY) ## Kueue's own integration specs against this tree; builds them with Go, once (SUITES= for some of them; half an hour)
	@KUBECTL="$$(tools/kubectl/get)" $(BIN)/python tools/kueue-suites $(SUITES)

split: $(DEV_READY)  ## guides, managed jobs and crashes with controllers in a process of their own
	KUBECTL="$$(tools/kubectl/get)" FAIRWAY_TEST_ARRANGEMENT=split FAIRWAY_JOBS=150 FAIRWAY_MANAGED_JOBS=100 FAIRWAY_KILLS=3 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(SPLIT)

pages: $(DEV_READY)  ## run every command of README, docs and help texts as it is written
	KUBECTL="$$(tools/kubectl/get)" $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests/pages --ignore tests/pages/test_machine.py

# Alone, because servers of other users on those machines are processes of this one, too: `fairway up` of another page would refuse to start beside them.
pages-systemd: $(DEV_READY) ## those that need systemd or a second machine, on machines that systemd runs; needs root
	KUBECTL="$$(tools/kubectl/get)" $(BIN)/python -m pytest -rs tests/pages/test_machine.py

fresh:           ## clone the repository, and install it and play the demo as README says, with an empty home
	tools/fresh/run

explore: $(DEV_READY) ## the property tests with new examples, and more of them
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -k "propert or fuzz or stateful"

kubectl: $(DEV_READY) ## get or build kubectl, and say where it is
	@tools/kubectl/get

lint: $(DEV_READY)   ## style, types, the direction of imports, names
	$(BIN)/ruff check src tests bench examples tools
	$(BIN)/ruff format --check src tests bench examples tools
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/names/check.py
	$(BIN)/python tools/words/check.py
	$(BIN)/python tools/deploy/generate.py --check

packages: $(DEV_READY) ## generate the Helm chart and the kustomize bases in deploy/
	$(BIN)/python tools/deploy/generate.py

format: $(DEV_READY) ## put the sources into shape
	$(BIN)/ruff check --fix src tests bench examples tools
	$(BIN)/ruff format src tests bench examples tools

bench: $(DEV_READY)  ## one table: time, memory and whether each goal is met (about nine minutes)
	$(BIN)/python -m bench

bench-quick: $(DEV_READY) ## the same table at a tenth of the size, without goals
	$(BIN)/python -m bench --quick

bench-cluster: $(DEV_READY) ## the controller on a real kube-apiserver: CPU, memory, writes, recovery times
	$(BIN)/python -m bench.kubecontroller

bench-ray: $(RAY_READY) ## from a RayJob to its driver's first line, beside Ray started by hand (about three minutes)
	.venv-ray/bin/python -m bench.ray

conformance: $(DEV_READY) ## replay the recorded decisions of Kueue
	$(BIN)/python -m fairway.testing.conformance tests/conformance/data/*.jsonl.gz

conformance-cluster: $(DEV_READY) ## the same through a real kube-apiserver and `fairway controller`, all worlds
	@FAIRWAY_WORLDS=all $(BIN)/python -m tools.cluster test --no-kubelet tests/cluster/test_conformance.py

clean:           ## remove what was set up and built
	rm -rf $(VENV) .venv-ray .venv-go .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
