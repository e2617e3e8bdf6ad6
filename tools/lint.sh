#!/usr/bin/env bash
# Checks formatting, layering and house rules: all checks that need no build.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z --cached --others --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh' |
  xargs -0 clang-format --dry-run --Werror
python3 tools/tidy.py
python3 tools/words.py
