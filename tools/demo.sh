#!/usr/bin/env bash
# Starts a server, sends one prompt twice, and prints the cache's metrics:
# tools/demo.sh PROGRAM MODEL
set -euo pipefail
program=$1 model=$2
work=$(mktemp -d)
"$program" serve --model "$model" --address 127.0.0.1:0 --metrics-address 127.0.0.1:0 \
  --port-file "$work/ports" --log-level warn &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null; rm -rf "$work"' EXIT
for _ in $(seq 200); do
  [[ -s $work/ports ]] && break
  kill -0 $server || exit 1
  sleep 0.05
done
field() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$work/ports"; }
address=127.0.0.1:$(field grpc)
scrape() { (exec 3<>"/dev/tcp/127.0.0.1/$(field metrics)"; printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; cat <&3) |
  grep -E '^incipit_(prefix_cache|requests|tokens|time_to_first_token_seconds_(sum|count))' | tr -d '\r'; }

# The prompt is long enough to fill many blocks.
opening="Once upon a time there was a little girl named Lily. She lived in a small house near the park. Every day she played with her red ball. One morning she went to the park with her friend Tom. They were very happy. The sun was warm and the birds sang. Lily wanted to show Tom her red ball."
scrape >"$work/before"
for attempt in first second; do
  printf '\n--- %s request\n' "$attempt"
  "$program" generate --address "$address" --prompt "$opening" --max-tokens 60 --temperature 0.7 --seed 7 --usage
done
printf '\n--- metrics that changed\n'
scrape >"$work/after"
diff "$work/before" "$work/after" | grep '^>' | cut -c3- || true
