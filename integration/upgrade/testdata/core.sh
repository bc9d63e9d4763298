#!/usr/bin/env bash
# Makes core.tar.gz: the program and the schema of an earlier commit, without
# tests, as the tests of upgrades need them where there is no history.
#
#   core.sh COMMIT
set -euo pipefail
cd "$(dirname "$0")"
top=$(git rev-parse --show-toplevel)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git -C "$top" archive "$1" go.mod go.sum migrations store listener locks dispatcher | tar -x -C "$folder"
find "$folder" -name '*_test.go' -delete
rm -rf "$folder/store/verify"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime='2000-01-01 00:00Z' -C "$folder" -c . | gzip -9n >core.tar.gz
