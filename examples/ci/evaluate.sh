#!/usr/bin/env bash
# Evaluate outputs in a CI job: the comment goes to comment.md, the job's summary and the pull request or merge request.
# Values come from the environment: OUTPUTS, RUBRIC, and where wanted JUDGE, BASELINE, REQUIRE, BUDGET_USD, GRADEBOOK_LAKE,
# DATA (the folder of the Parquet files, for a lake in PostgreSQL).
# Exits as `gradebook evaluate`: 0 met, 1 a gate or threshold is not met, 2 bad input, 3 not finished.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)

if ! command -v gradebook >/dev/null; then
    make -s -C "$here" PYTHON="${PYTHON:-python3}" .venv/.stamp
    PATH="$here/.venv/bin:$PATH"
    if [[ "${GRADEBOOK_LAKE:-}" == postgres:* ]]; then
        python -m pip install --quiet --no-build-isolation -e "$here[postgres]"
    fi
fi

options=(--rubric "$RUBRIC")
[ -n "${JUDGE:-}" ] && options+=(--judge "$JUDGE")
[ -n "${BASELINE:-}" ] && options+=(--baseline "$BASELINE")
[ -n "${REQUIRE:-}" ] && options+=(--require "$REQUIRE")
[ -n "${BUDGET_USD:-}" ] && options+=(--budget-usd "$BUDGET_USD")
place=()
[ -n "${DATA:-}" ] && place=(--data "$DATA")

# The id is chosen here, so that the report finds the run whatever the exit code.
run_id="ci-$(date -u +%Y%m%d-%H%M%S)-$$"
code=0
gradebook evaluate "$OUTPUTS" --run-id "$run_id" "${options[@]}" "${place[@]}" || code=$?
[ "$code" -le 1 ] || exit "$code"  # nothing was published

gradebook report "$run_id" --format md --out comment.md "${place[@]}"
gradebook report "$run_id" --out report.html "${place[@]}"
[ -n "${GITHUB_STEP_SUMMARY:-}" ] && cat comment.md >> "$GITHUB_STEP_SUMMARY"
if [ -n "${GITHUB_OUTPUT:-}" ]; then
    printf 'run-id=%s\nreport=%s\n' "$run_id" "$PWD/report.html" >> "$GITHUB_OUTPUT"
fi
if [ "${COMMENT:-}" = true ] && [ -n "${PULL_REQUEST:-}" ]; then
    gh pr comment "$PULL_REQUEST" --body-file comment.md
fi
if [ "${COMMENT:-}" = true ] && [ -n "${CI_MERGE_REQUEST_IID:-}" ] && [ -n "${GITLAB_TOKEN:-}" ]; then
    curl --fail --silent --show-error --output /dev/null --header "PRIVATE-TOKEN: $GITLAB_TOKEN" \
        --data-urlencode "body@comment.md" \
        "$CI_API_V4_URL/projects/$CI_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes"
fi
exit "$code"
