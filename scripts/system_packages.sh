#!/bin/sh
# What pip cannot bring, for one of: setup, demo, test. Installed where we are root on Debian; elsewhere what is
# missing is named in one sentence, and only what is really needed stops us.
#   setup  a Python with venv
#   demo   a Python 3.11 or 3.12 with its shared library, which Triton's Python stub loads; hey (a second opinion)
#   test   the same, and a browser for the report (with libatomic1 for its driver), git and patch to apply a diff
set -eu
what=${1:-test}
needed="" wished=""

lacks() { ! command -v "$1" >/dev/null 2>&1; }

venv_works() {
  for python in python3.12 python3.11 python3; do
    if ! lacks "$python" && "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then return 0; fi
  done
  return 1
}

# Whether some CPython 3.11 or 3.12 has its libpython beside it or where the loader looks.
libpython_found() {
  for python in python3.12 python3.11 python3 /usr/bin/python3; do
    lacks "$python" && continue
    "$python" - <<'PYTHON' 2>/dev/null && return 0
import ctypes, os, sys, sysconfig
if sys.version_info[:2] not in ((3, 11), (3, 12)):
    sys.exit(1)
name = f"libpython3.{sys.version_info[1]}.so.1.0"
if not os.path.exists(os.path.join(sysconfig.get_config_var("LIBDIR") or "", name)):
    ctypes.CDLL(name)
PYTHON
  done
  return 1
}

venv_works || needed="$needed python3-venv"
if [ "$what" != setup ]; then
  libpython_found || needed="$needed libpython3.11"
  ! lacks hey || wished="$wished hey"
fi
if [ "$what" = test ]; then
  needed="$needed$wished" wished=""
  python3 -c 'import ctypes; ctypes.CDLL("libatomic.so.1")' 2>/dev/null || needed="$needed libatomic1"
  for program in chromium git patch; do ! lacks "$program" || needed="$needed $program"; done
fi
[ -n "$needed$wished" ] || exit 0

if [ "$(id -u)" = 0 ] && ! lacks apt-get; then
  echo "Installing Debian packages:$needed$wished"
  apt-get update -qq >/dev/null 2>&1 || true
  # shellcheck disable=SC2086
  if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $needed $wished >/dev/null 2>&1; then
    exit 0
  fi
fi
[ -n "$needed" ] || exit 0
echo "These are missing and could not be installed from here:$needed. Install them, then run make again." >&2
exit 1
