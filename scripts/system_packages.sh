#!/bin/sh
# What the tests need from the system: a browser for the report, hey as an independent load generator, and
# git and patch to apply a diff. Installed where we are root on Debian; elsewhere named in one sentence.
set -eu
missing=""
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
for program in hey git patch; do
  command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing="$missing python3-venv"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Installing Debian packages:$missing"
  apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
  echo "The tests need these programs, which are missing and cannot be installed from here:$missing." >&2
  exit 1
fi
