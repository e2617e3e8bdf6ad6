#!/usr/bin/env bash
# Installs the compiler for device code from PyPI into build/cuda_toolkit. CMake searches for it
# there after CUDA_HOME and /usr/local/cuda. Neither a GPU nor a driver nor root permissions are
# needed.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88
  nvidia-cuda-runtime==13.0.96)
folder=build/cuda_toolkit
mkdir -p build
exec 9>build/cuda_toolkit.lock
flock 9
if [[ "$(cat "$folder/packages.txt" 2>/dev/null)" != "${packages[*]}" ]]; then
  rm -rf "$folder"
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --target "$folder" "${packages[@]}"
  rm -rf "$folder/venv"
  echo "${packages[*]}" >"$folder/packages.txt"
fi
"$folder/nvidia/cu13/bin/nvcc" --version | tail -2
echo "configure again: CMake now finds the compiler"
