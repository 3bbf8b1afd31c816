#!/bin/sh
# Makes .venv ready for "runtime" or "dev" use; silent when it already is. All it says goes to stderr.
set -eu

want=${1:?"usage: scripts/bootstrap.sh runtime|dev"}
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '%s\n' "$*" >&2; }
refuse() {
    say "$*"
    exit 1
}
ready() { [ -e ".venv/.ready-$1" ] && [ ! pyproject.toml -nt ".venv/.ready-$1" ]; }
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# A moved checkout or a removed interpreter leaves programs behind that no longer start.
works() {
    .venv/bin/python -c 'import pip' 2>/dev/null && [ "$(cat .venv/.root 2>/dev/null || pwd -P)" = "$(pwd -P)" ]
}

find_python() {
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    refuse "WebCodex needs Python 3.11 or newer; found $(python3 --version 2>/dev/null || echo none)." \
        "Install python3.11 and run this again."
}

# Debian ships the venv module without the pip it needs.
ensure_venv() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    if ! command -v apt-get >/dev/null; then
        refuse "$1 lacks its venv or ensurepip module. Install both with your system's packages and try again."
    elif [ "$(id -u)" -ne 0 ]; then
        refuse "$1 cannot create environments yet. Run: sudo apt-get install $1-venv"
    fi
    say "Installing $1-venv."
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y "$1-venv"; } >&2 ||
        refuse "That failed. Run: apt-get install $1-venv"
}

ready "$want" && works && exit 0
case $want in
runtime) what=. ;;
dev) what='.[dev]' ;;
*) refuse "usage: scripts/bootstrap.sh runtime|dev" ;;
esac
if ! works; then
    python=$(find_python)
    ensure_venv "$python"
    say "Creating the environment in .venv."
    "$python" -m venv --clear .venv >&2
    pwd -P >.venv/.root
fi
say "Installing what WebCodex needs into .venv; the first time takes a minute or two."
.venv/bin/python -m pip install -qq -e "$what" >&2
# What is not compiled yet is compiled at every start where the environment forbids to keep it.
.venv/bin/python -m compileall -q src integrations >&2 || true
touch .venv/.ready-runtime
[ "$want" = runtime ] || touch .venv/.ready-dev
