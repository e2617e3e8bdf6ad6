#!/usr/bin/env bash
# Formatting, layering and house rules: everything that needs no build.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z --cached --others --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh' |
  xargs -0 clang-format --dry-run --Werror
python3 tools/tidy.py
