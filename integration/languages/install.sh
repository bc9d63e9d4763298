#!/usr/bin/env bash
# Finds psql, Node.js, Python and curl, which the examples of the documentation
# are tried with, or installs them with apt or brew, and puts Node's PostgreSQL
# driver into a cache folder. It prints that folder.
set -euo pipefail
. "$(dirname "$0")/../as_root.sh"

# The one version of the driver that is used.
DRIVER=pg@8.23.1

say() { echo "languages: $*" >&2; }

missing() {
  local program
  for program in psql node npm python3 curl; do
    command -v "$program" >/dev/null || echo "$program"
  done
}

with_apt() {
  may_apt || return 1
  say "installing Debian's packages postgresql-client, nodejs, npm, python3 and curl with apt-get"
  as_root apt-get update -q >&2 &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends postgresql-client nodejs npm python3 curl >&2
}

with_brew() {
  command -v brew >/dev/null || return 1
  say "installing libpq, node, python and curl with brew"
  brew install libpq node python curl >&2
}

if [ -n "$(missing)" ]; then
  with_apt || with_brew || true
fi
if [ -n "$(missing)" ]; then
  say "not found, and neither apt nor brew can install: $(missing | xargs)"
  exit 1
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/node-$DRIVER
if [ ! -d "$cache/node_modules/pg" ]; then
  say "installing $DRIVER into $cache with npm"
  mkdir -p "$cache"
  npm install --silent --no-audit --no-fund --prefix "$cache" "$DRIVER" >&2
fi
echo "$cache/node_modules"
