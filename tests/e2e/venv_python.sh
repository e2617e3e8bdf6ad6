#!/usr/bin/env bash
# Runs a script in the Python environment of the tests. Exits with 77, which CTest reports as
# skipped, if tools/test_env.sh could not create the environment.
python=$(dirname "$0")/../../build/venv/bin/python
if [[ ! -x $python ]]; then
  echo "skipped: tools/test_env.sh could not make build/venv"
  exit 77
fi
exec "$python" "$@"
