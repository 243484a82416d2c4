#!/bin/sh
# The first minutes of a new user: a new clone, a new home, no uv on the path, an empty cache, the pip that Python brings.
#
#     make test-install
#
# `make demo` by each Python from 3.11 to 3.14 that is on the machine, all at once: most of it is waiting for packages.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tools=$(dirname "$(command -v git)"):$(dirname "$(command -v make)"):/usr/bin:/bin

demo() {  # VERSION PYTHON
    clone="$folder/$1"
    mkdir -p "$folder/home-$1"
    git clone -q "$root" "$clone"
    begun=$(date +%s)
    (cd "$clone" && env -i PATH="$tools" HOME="$folder/home-$1" LANG=C.UTF-8 PIP_NO_CACHE_DIR=1 make demo PYTHON="$2") \
        > "$folder/demo-$1" 2>&1 || { cat "$folder/demo-$1"; exit 1; }
    echo "fresh clone: make demo with $("$2" --version): $(($(date +%s) - begun)) s, $(du -sm "$clone/.venv" | cut -f1) MB"
    rm -rf "$clone"
}

# A name may be a shim of a version that is not chosen: the interpreter tells its own path and version.
begun_jobs=
for version in 3.11 3.12 3.13 3.14; do
    python=$("python$version" -c 'import sys; print(sys.executable)' 2>/dev/null) \
        || python=$(ls "$HOME"/.pyenv/versions/"$version".*/bin/python3 2>/dev/null | tail -1)
    if [ -z "$python" ]; then echo "fresh clone: no Python $version here: not tried"; continue; fi
    demo "$version" "$python" &
    begun_jobs="$begun_jobs $!"
done
[ -n "$begun_jobs" ] || { echo "fresh clone: found no Python from 3.11 to 3.14" >&2; exit 1; }
failed=0
for job in $begun_jobs; do wait "$job" || failed=1; done
exit "$failed"
