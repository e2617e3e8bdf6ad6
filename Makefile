# Thin names for what CMake, CTest and the scripts in tools/ do.
.DEFAULT_GOAL := build
.PHONY: build deps deps-cuda serve test test-clients demo bench bench-workloads package lint clean help

RELEASE := build/release
MODEL ?= models/incipit-tiny
ADDRESS ?= 127.0.0.1:50051
METRICS_ADDRESS ?= 127.0.0.1:9464
HTTP_ADDRESS ?= 127.0.0.1:8000

help:    ## these lines
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/'

deps:    ## install the Debian packages that are missing (root or sudo), or say how
	@tools/deps.sh --all

deps-cuda:  ## install the compiler of device code from PyPI into build/cuda_toolkit (no root; 260 MB)
	@tools/deps_cuda.sh

build: deps   ## build/release/incipit
	@tools/build.sh release incipit

serve: build  ## serve the bundled model on the CPU (MODEL=, ADDRESS=, HTTP_ADDRESS=, METRICS_ADDRESS=)
	@echo "In another terminal:  $(RELEASE)/incipit generate --address $(ADDRESS) --prompt 'Once upon a time'"
	@echo "or:  curl http://$(HTTP_ADDRESS)/v1/completions -H 'Content-Type: application/json' -d '{\"prompt\": \"Once upon a time\"}'"
	@echo "or open http://$(HTTP_ADDRESS)/ in a browser"
	@exec $(RELEASE)/incipit serve --model $(MODEL) --address $(ADDRESS) --http-address $(HTTP_ADDRESS) --metrics-address $(METRICS_ADDRESS)

test: deps    ## build everything and run every test
	@tools/build.sh release
	@ctest --preset release --output-junit junit.xml $(CTEST_ARGS)

test-clients: deps  ## test with other projects' clients and in Chromium (PyPI; 640 MB in build/clients)
	@tools/build.sh release incipit fake_server
	@tools/test_clients.sh $(RELEASE)

package: deps  ## build/incipit.tar.xz: the program and all it needs, with the CUDA backend where there is an nvcc
	@tools/package.sh

demo: build   ## one prompt twice: streamed text, cached tokens, the metrics that moved
	@tools/demo.sh $(RELEASE)/incipit $(MODEL)

bench: deps   ## micro-benchmarks and an end-to-end load run
	@cmake --preset release -DINCIPIT_BENCH=ON >/dev/null
	@cmake --build --preset release
	@tools/bench.sh $(RELEASE)

bench-workloads: build  ## the workloads of `incipit bench`, prefix cache on and off: table and plots in build/workloads
	@python3 bench/workloads.py $(RELEASE)/incipit

lint: deps    ## what can be said about the code without building it
	@tools/lint.sh

clean:   ## remove build/
	rm -rf build
