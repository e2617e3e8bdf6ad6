#!/usr/bin/env bash
# Runs the micro-benchmarks, then a load test against a temporary server:
# tools/bench.sh BUILD-FOLDER [MODEL]
set -euo pipefail
build=$1 model=${2:-models/incipit-tiny}
for program in "$build"/bench/*_bench; do
  [[ $program == */step_time_bench || $program == */kv_events_step_bench ]] && continue  # need a model, see below
  echo "=== ${program##*/}"
  "$program" --benchmark_min_time=0.2
done
echo "=== step_time_bench"
"$build/bench/step_time_bench" --model "$model" --rounds 1 --phase-seconds 1
echo "=== kv_events_step_bench"
"$build/bench/kv_events_step_bench" --model "$model" --pairs 5
work=$(mktemp -d)
"$build/incipit" serve --model "$model" --address 127.0.0.1:0 --metrics-address 127.0.0.1:0 \
  --port-file "$work/ports" --log-level warn &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null; rm -rf "$work"' EXIT
until [[ -s $work/ports ]]; do
  kill -0 $server 2>/dev/null || { echo "the server did not start" >&2; exit 1; }
  sleep 0.05
done
port=$(sed -n 's/.*"grpc": *\([0-9]*\).*/\1/p' "$work/ports")
for shared in 0 256; do
  echo "=== end to end, all prompts share their first $shared tokens"
  "$build/incipit" bench --address "127.0.0.1:$port" --requests 100 --concurrency 8 \
    --prompt-tokens 320 --output-tokens 32 --shared-prefix-tokens $shared
done
