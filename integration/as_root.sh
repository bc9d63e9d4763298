# shellcheck shell=bash
# For the scripts that install what the tests need.

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

# may_apt tells whether packages can be installed with apt.
may_apt() {
  command -v apt-get >/dev/null || return 1
  [ "$(id -u)" = 0 ] || command -v sudo >/dev/null
}
