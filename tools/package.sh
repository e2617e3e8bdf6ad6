#!/usr/bin/env bash
# Builds the program (with the CUDA backend if CUDA 13's nvcc is installed) and packs it.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/build.sh release packaged_programs
grep -q incipit-gpu-bench build/release/packaged_programs.txt ||
  echo "nvcc of CUDA 13 not found (make deps-cuda installs it): the package has no CUDA backend"
python3 tools/package.py build/release build/incipit.tar.xz
