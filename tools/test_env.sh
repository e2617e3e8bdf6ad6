#!/usr/bin/env bash
# Creates the Python environment of the tests, build/venv, unless it exists and is up to date. Exits
# with 77, which CTest reports as skipped, if the package index cannot be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/venv requirements=tests/requirements.txt
mkdir -p build
exec 9>build/venv.lock
flock 9
if cmp -s "$requirements" "$venv/requirements.txt"; then exit 0; fi
rm -rf "$venv"
python3 -m venv "$venv" || { echo "skipped: python3-venv is not installed"; exit 77; }
if ! "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 15 \
  --only-binary :all: -r "$requirements"; then
  rm -rf "$venv"
  echo "skipped: the package index cannot be reached"
  exit 77
fi
cp "$requirements" "$venv/requirements.txt"
