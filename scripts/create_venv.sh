#!/usr/bin/env bash
# Creates a virtual environment: create_venv.sh PYTHON FOLDER. Reports what is missing on failure.
set -euo pipefail

python=$1
venv=$2

if ! command -v "$python" >/dev/null; then
    echo "error: '$python' was not found; install Python 3.11 or later, or name one: make PYTHON=python3.12 ..." >&2
    exit 2
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    # A newer Python may be installed beside the default.
    newer=""
    for candidate in python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null; then newer=$candidate && break; fi
    done
    if [[ -z $newer ]]; then
        echo "error: $("$python" --version) is too old; install Python 3.11 or later, or name one: make PYTHON=... " >&2
        exit 2
    fi
    python=$newer
fi

# Keep a working environment: it may contain other packages.
if "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

# Debian and its derivatives package the venv module separately.
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    package="python$version-venv"
    if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
        echo "Installing $package" >&2
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
    else
        echo "error: $python has no venv module; install it (Debian, Ubuntu: sudo apt-get install $package)" >&2
        exit 2
    fi
fi

echo "Creating $venv with $("$python" --version)" >&2
rm -rf "$venv"
"$python" -m venv "$venv"
