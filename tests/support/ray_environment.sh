#!/bin/sh
# One evaluation by Ray's workers in an environment of its own, beside the same one by threads: equal to the bit.
#
#     tests/support/ray_environment.sh [FOLDER]    the environment is made in FOLDER/venv where it is not there yet, with pip
#
# Ray is no part of requirements-dev.lock: it is large, and only the extra `ray` asks for it. The environment has Ray and what
# comes with it; all else is read from that of PYTHON, by default .venv, which `make` makes.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
base=${PYTHON:-$root/.venv/bin/python}
folder=${1:-$(mktemp -d)}
python=$folder/venv/bin/python
work=$(mktemp -d)
trap 'rm -rf "$work"; [ "$#" -gt 0 ] || rm -rf "$folder"' EXIT
export RAY_USAGE_STATS_ENABLED=0 PREFECT_HOME="$folder/prefect" PYTHONPATH="$root"
unset PREFECT_API_URL GRADEBOOK_LAKE GRADEBOOK_TASK_RUNNER

if [ ! -e "$folder/ready" ]; then
    "$base" -m venv --clear "$folder/venv"
    there=$("$base" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    echo "$there" > "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/gradebook-base.pth"
    grep -oE '^[A-Za-z0-9_.-]+==[^ ;]+' "$root/requirements-dev.lock" > "$folder/constraints"
    "$python" -m pip install -q --disable-pip-version-check "prefect-ray>=0.5" -c "$folder/constraints"
    touch "$folder/ready"
fi

cd "$work"
"$python" - <<'PY'
import json
rows = [{"case_id": f"c{i}", "model": "m", "output": f"Answer {i}. " * (i % 5 + 1)} for i in range(3000)]
open("outputs.jsonl", "w").write("".join(json.dumps(row) + "\n" for row in rows))
open("rubric.yaml", "w").write("""
id: ray
version: 1.0.0
criteria:
  - {id: length, description: At most 6 words., weight: 1, method: {type: check, check: length_words, settings: {max: 6}}}
  - {id: sentences, description: At least 2., weight: 0.3, method: {type: check, check: count_sentences, settings: {min: 2}}}
""")
PY
for runner in threads ray; do
    "$python" -m gradebook.flows.cli evaluate outputs.jsonl --rubric rubric.yaml --run-id "$runner" --runner "$runner" > /dev/null
done
different=$("$python" -m gradebook.flows.cli sql --format csv "
    with a as (select * exclude (run_id) from output_scores where run_id = 'threads'),
    b as (select * exclude (run_id) from output_scores where run_id = 'ray')
    select (select count(*) from b), count(*) from ((from a except all from b) union all (from b except all from a))" | tail -1)
[ "$different" = "3000,0" ] || { echo "ray: found $different, expected 3000,0 (rows, and rows that differ)" >&2; exit 1; }
echo "ray: 3000 rows, as with threads"
