#!/usr/bin/env bash
# Builds the program, with the CUDA backend where there is an nvcc of CUDA 13, and packs it.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release programs=()
for home in "${CUDA_HOME:-}" /usr/local/cuda build/cuda_toolkit/nvidia/cu13; do
  if [[ -n "$home" && -x "$home/bin/nvcc" ]] && "$home/bin/nvcc" --version | grep -q "release 13\."; then
    preset=cuda
    programs=(tests/conformance/conformance_cuda_test tests/emulator/model_cuda_test
      tests/gpu_check/incipit-gpu-bench tests/gpu_check/incipit-gpu-bench-emulated)
    break
  fi
done
[[ $preset == cuda ]] || echo "no nvcc of CUDA 13 (make deps-cuda installs one): the package is without CUDA"
tools/build.sh $preset incipit "${programs[@]##*/}"
python3 tools/package.py "build/$preset" build/incipit.tar.xz "${programs[@]}"
