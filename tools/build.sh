#!/usr/bin/env bash
# Configures and builds a preset: tools/build.sh PRESET [TARGET ...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
mkdir -p build
if ! cmake --preset "$preset" >"build/$preset-configure.log" 2>&1; then
  cat "build/$preset-configure.log" >&2
  exit 1
fi
targets=("$@")
if [[ ${#targets[@]} -gt 0 ]]; then targets=(--target "${targets[@]}"); fi
exec cmake --build --preset "$preset" "${targets[@]}"
