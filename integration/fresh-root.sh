#!/usr/bin/env bash
# Shows that the two commands of the README are enough on a fresh machine: in an
# empty Debian with nothing but Go, git, make and a C compiler, it clones this
# repository and runs, as root, make demo and make test twice, and make test once
# more as an ordinary user. It prints how each ended, with its last lines.
#
# It needs root and a few GB in TMPDIR. The go command's proxy settings are taken
# over from the caller; its caches are not.
set -euo pipefail

if [ "$(id -u)" != 0 ]; then
  echo "fresh-root.sh: only root may make a root folder" >&2
  exit 2
fi
repo=$(cd "$(dirname "$0")/.." && git rev-parse --show-toplevel)
suite=${1:-bookworm}

command -v debootstrap >/dev/null || apt-get install -q -y --no-install-recommends debootstrap
root=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-fresh-root-XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
chmod 755 "$root"

echo "== an empty Debian $suite"
begun=$SECONDS
debootstrap --variant=minbase --include=ca-certificates,git,make,gcc,libc6-dev "$suite" "$root" >"$root.log" 2>&1 ||
  { tail -n 20 "$root.log"; exit 1; }
rm "$root.log"
cp -a "$(go env GOROOT)" "$root/usr/local/go"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root/etc/ssl/certs/ca-certificates.crt"
git clone --quiet --no-local "$repo" "$root/srv/lockstep"
chroot "$root" useradd --create-home somebody
git clone --quiet --no-local "$repo" "$root/home/somebody/lockstep"
chroot "$root" chown -R somebody: /home/somebody/lockstep
echo "made in $((SECONDS - begun)) s"

# inside USER FOLDER COMMAND… runs a command in the new root, in a process and
# mount namespace of its own: when it ends, so does all that it started.
inside() {
  local user=$1 folder=$2
  shift 2
  # shellcheck disable=SC2016 # the inner shell expands these
  unshare --mount --pid --fork --propagation private bash -c '
    root=$1 user=$2 folder=$3
    shift 3
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" su "$user" -s /bin/bash -c "cd $folder && exec \"\$@\"" -- bash "$@"
  ' bash "$root" "$user" "$folder" \
    env -i PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="${folder%/*}" \
    GOPROXY="$(go env GOPROXY)" GOSUMDB="$(go env GOSUMDB)" GONOSUMDB="$(go env GONOSUMDB)" GOTOOLCHAIN=local "$@" </dev/null
}

failed=0
show() {
  local title="$*" begun=$SECONDS status=0
  echo "== $title"
  inside "$@" >"$root/log" 2>&1 || status=$?
  tail -n 25 "$root/log"
  echo "-- $title: ended in $status after $((SECONDS - begun)) s"
  if [ "$status" != 0 ]; then
    failed=1
    echo "-- what failed:"
    grep -A 15 -e '--- FAIL' -e '^panic:' -e 'DATA RACE' "$root/log" | tail -n 200 || true
  fi
}

show root /srv/lockstep make demo
show root /srv/lockstep make test
show root /srv/lockstep make test
show somebody /home/somebody/lockstep make test
exit "$failed"
