#!/usr/bin/env bash
# Runs the programs of tests/clients, which test the server with clients of other projects and in Chromium. Creates
# their Python environment, build/clients, unless it exists and is up to date.
#   tools/test_clients.sh BUILD_FOLDER [NAME...]   without names: every program
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
venv=build/clients requirements=tests/clients/requirements.txt
mkdir -p build
exec 9>build/clients.lock
flock 9
if ! cmp -s "$requirements" "$venv/requirements.txt"; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
  cp "$requirements" "$venv/requirements.txt"
fi
if [[ $# -eq 0 ]]; then
  for program in tests/clients/*.py; do set -- "$@" "$(basename "$program" .py)"; done
fi
failed=()
for name in "$@"; do
  echo "=== $name"
  PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" "tests/clients/$name.py" "$build/incipit" || failed+=("$name")
done
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "=== failed: ${failed[*]}"
  exit 1
fi
echo "=== every program passed"
