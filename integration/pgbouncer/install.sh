#!/usr/bin/env bash
# Finds the program pgbouncer, or installs it with apt or brew. It starts no
# pooler.
set -euo pipefail
. "$(dirname "$0")/../as_root.sh"

say() { echo "pgbouncer: $*" >&2; }

find_program() {
  command -v pgbouncer && return
  local path
  for path in /usr/sbin/pgbouncer /opt/homebrew/bin/pgbouncer /usr/local/bin/pgbouncer; do
    [ -x "$path" ] && echo "$path" && return
  done
  return 1
}

# Debian's package would start a pooler: not in a single-user runlevel.
with_apt() {
  may_apt || return 1
  say "installing Debian's package pgbouncer with apt-get"
  as_root apt-get update -q >&2 &&
    as_root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends pgbouncer >&2
}

with_brew() {
  command -v brew >/dev/null || return 1
  say "installing pgbouncer with brew"
  brew install pgbouncer >&2
}

if ! program=$(find_program); then
  with_apt || with_brew || true
  program=$(find_program) || { say "not found, and neither apt nor brew can install it"; exit 1; }
fi
say "using $program"
