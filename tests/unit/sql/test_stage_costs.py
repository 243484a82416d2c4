"""stage_costs: time and cost of each stage."""

TONE = {"tone": {}}
SCORES = {"o": {"tone": 1.0}}


def costs(connection, names):
    return connection.execute(f"select {names} from stage_costs order by stage, criterion_id nulls first").fetchall()


def judgment(cost_usd, criterion_id="tone"):
    return {"output_id": "o", "criterion_id": criterion_id, "cost_usd": cost_usd}


def test_times_and_rows_of_a_stage_are_summed(build):
    # 1.5 + 2.0, 1.0 + 0.5, 10 + 20
    timings = (
        {"stage": "ingest", "wall_s": 1.5, "cpu_s": 1.0, "row_count": 10},
        {"stage": "ingest", "wall_s": 2.0, "cpu_s": 0.5, "row_count": 20},
    )
    found = costs(build(TONE, SCORES, timings=timings), "run_id, stage, criterion_id, wall_s, cpu_s, row_count")
    assert found == [("run", "ingest", None, 3.5, 1.5, 30)]


def test_money_and_tokens_are_those_of_the_judgments_of_the_criterion(build):
    # 2 x 100, 2 x 40, 2 x 7 tokens; 0.25 + 0.5
    connection = build(
        TONE,
        SCORES,
        judgments=(judgment(0.25), judgment(0.5)),
        timings=({"stage": "score", "criterion_id": "tone", "row_count": 2},),
    )
    found = costs(
        connection,
        "stage, criterion_id, row_count, request_count, prompt_tokens, cached_tokens, completion_tokens, cost_usd",
    )
    assert found == [("score", "tone", 2, 2, 200, 80, 14, 0.75)]


def test_a_recorded_reply_is_not_a_request(build):
    connection = build(TONE, SCORES, judgments=(judgment(0.25), {**judgment(0.0), "attempts": 0}))
    assert costs(connection, "request_count, prompt_tokens") == [(1, 200)]


def test_a_stage_without_requests_costs_nothing(build):
    found = costs(
        build(TONE, SCORES, timings=({"stage": "plan"},)), "request_count, prompt_tokens, cost_usd, saved_usd"
    )
    assert found == [(0, 0, 0.0, 0.0)]


def test_one_unknown_price_makes_only_its_criterions_cost_unknown(build):
    judgments = (judgment(0.25), judgment(None), judgment(0.5, "facts"))
    connection = build(TONE | {"facts": {}}, SCORES, judgments=judgments)
    assert costs(connection, "criterion_id, cost_usd") == [("facts", 0.5), ("tone", None)]


def test_judgments_without_a_timing_still_cost(build):
    assert costs(build(TONE, SCORES, judgments=(judgment(0.25),)), "stage, wall_s, cost_usd") == [("score", 0.0, 0.25)]


def test_judgments_of_per_case_criteria_are_in_the_row_of_their_timing(build):
    # 0.25 + 0.5; timings have one id for all per-case criteria
    judgments = (judgment(0.25, "first"), judgment(0.5, "second"))
    timings = ({"stage": "score", "criterion_id": "(own)", "wall_s": 2.0, "row_count": 2},)
    own = {"o": {"first": {}, "second": {}}}
    connection = build(TONE, SCORES, own=own, judgments=judgments, timings=timings)
    assert costs(connection, "criterion_id, wall_s, row_count, cost_usd") == [("(own)", 2.0, 2, 0.75)]


def test_written_feedback_has_a_row_of_its_own(build):
    judgments = (judgment(0.25, "(feedback)"), judgment(0.5, "first"), judgment(0.5))
    connection = build(TONE, SCORES, own={"o": {"first": {}}}, judgments=judgments)
    assert costs(connection, "criterion_id, cost_usd") == [("(feedback)", 0.25), ("(own)", 0.5), ("tone", 0.5)]


def test_replayed_counts_and_savings_are_summed(build):
    # 3 + 2 replayed; 0.3 + 0.2 saved
    timings = tuple(
        {"stage": "score", "criterion_id": "tone", "replayed_count": count, "saved_usd": count / 10} for count in (3, 2)
    )
    assert costs(build(TONE, SCORES, timings=timings), "replayed_count, saved_usd") == [(5, 0.5)]


def test_a_replay_at_an_unknown_price_has_unknown_savings(build):
    timings = ({"stage": "score", "replayed_count": 3, "saved_usd": None}, {"stage": "score", "replayed_count": 0})
    assert costs(build(TONE, SCORES, timings=timings), "replayed_count, saved_usd") == [(3, None)]


def test_a_stage_and_its_criteria_have_rows_of_their_own(build):
    timings = ({"stage": "score", "wall_s": 1.0}, {"stage": "score", "criterion_id": "tone", "wall_s": 2.0})
    assert costs(build(TONE, SCORES, timings=timings), "criterion_id, wall_s") == [(None, 1.0), ("tone", 2.0)]


def test_unreported_tokens_are_left_out_of_sums(build):
    uncounted = dict.fromkeys(("prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd"))
    connection = build(TONE, SCORES, judgments=(judgment(0.25), {**judgment(None), **uncounted}))
    assert costs(connection, "request_count, prompt_tokens, cost_usd") == [(2, 100, None)]
