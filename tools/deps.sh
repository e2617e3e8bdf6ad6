#!/usr/bin/env bash
# Installs the missing Debian packages that Incipit needs, as root or through sudo without a password.
# If neither is possible, prints the command that installs the packages, and fails.
#   tools/deps.sh          packages for building and serving
#   tools/deps.sh --all    also packages for tests, sanitizers and checks
set -euo pipefail

build=(
  build-essential ca-certificates cmake git ninja-build pkg-config
  libabsl-dev libboost1.81-dev libfmt-dev libgrpc++-dev libpcre2-dev libprotobuf-dev libspdlog-dev
  libssl-dev liburing-dev libutf8proc-dev libxxhash-dev libyaml-cpp-dev nlohmann-json3-dev prometheus-cpp-dev
  protobuf-compiler protobuf-compiler-grpc
)
check=(
  clang clang-format libbenchmark-dev libclang-rt-14-dev libgmock-dev libgtest-dev libomp-14-dev procps
  prometheus python3 python3-venv
)

packages=("${build[@]}")
if [[ "${1:-}" == "--all" ]]; then packages+=("${check[@]}"); fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [[ "$state" == *"install ok installed" ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

# Recommended packages are not installed, and no service of a package is started.
command="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
if [[ $(id -u) == 0 ]]; then
  as_root=(env)
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  as_root=(sudo)
else
  echo "These packages are missing, and installing them needs root. Run this once:" >&2
  echo "  sudo sh -c '$command'" >&2
  exit 1
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
