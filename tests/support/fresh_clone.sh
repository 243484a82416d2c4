#!/bin/sh
# The first minutes of a new user: a new clone, a new home, no uv on the path, an empty cache, the pip that Python brings.
#
#     make test-install
#
# `make demo` by each Python from 3.11 to 3.14 that is on the machine, and with the first one `make lint` to its end.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tools=$(dirname "$(command -v git)"):$(dirname "$(command -v make)"):/usr/bin:/bin
first=yes

# A name may be a shim of a version that is not chosen: the interpreter tells its own path and version.
for version in 3.11 3.12 3.13 3.14; do
    python=$("python$version" -c 'import sys; print(sys.executable)' 2>/dev/null) \
        || python=$(ls "$HOME"/.pyenv/versions/"$version".*/bin/python3 2>/dev/null | tail -1)
    if [ -z "$python" ]; then echo "fresh clone: no Python $version here: not tried"; continue; fi
    clone="$folder/$version"
    mkdir -p "$folder/home-$version"
    git clone -q "$root" "$clone"
    begun=$(date +%s)
    in_clone() { (cd "$clone" && env -i PATH="$tools" HOME="$folder/home-$version" LANG=C.UTF-8 PIP_NO_CACHE_DIR=1 "$@"); }
    in_clone make demo PYTHON="$python" > "$folder/demo-$version" 2>&1 || { cat "$folder/demo-$version"; exit 1; }
    echo "fresh clone: make demo with $("$python" --version): $(($(date +%s) - begun)) s, $(du -sm "$clone/.venv" | cut -f1) MB"
    if [ -n "$first" ]; then
        first=
        in_clone make lint PYTHON="$python"
        echo "fresh clone: make lint: $(($(date +%s) - begun)) s in all, $(du -sm "$clone/.venv" | cut -f1) MB"
    fi
    rm -rf "$clone"
done
[ -z "$first" ] || { echo "fresh clone: found no Python from 3.11 to 3.14" >&2; exit 1; }
