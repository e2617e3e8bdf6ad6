#!/usr/bin/env bash
# Builds the program, with the CUDA backend where there is an nvcc of CUDA 13, and packs it.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/build.sh release packaged_programs
grep -q incipit-gpu-bench build/release/packaged_programs.txt ||
  echo "no nvcc of CUDA 13 (make deps-cuda installs one): the package is without CUDA"
python3 tools/package.py build/release build/incipit.tar.xz
