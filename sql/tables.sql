-- The tables of the lake, with the types that the Parquet files have. What a column means: columns.yml.
-- DuckLake has no primary keys; columns.yml declares the grain of each table.

create table if not exists runs (
    run_id varchar,
    created_at timestamptz,
    finished_at timestamptz,
    status varchar,
    reason varchar,
    trigger varchar,
    dataset varchar,
    dataset_digest varchar,
    rubric_id varchar,
    rubric_version varchar,
    rubric_digest varchar,
    judge varchar,
    settings varchar,
    notes varchar[],
    code_version varchar,
    output_count bigint,
    version bigint,
    cost_usd double,
    judge_epoch integer,
    stopped_at bigint
);

create table if not exists outputs (
    output_id varchar,
    case_id varchar,
    model varchar,
    checkpoint varchar,
    sample_index integer,
    prompt varchar,
    output varchar,
    reference varchar,
    context varchar[],
    metadata varchar,
    criteria varchar,
    cluster varchar,
    steps struct(
        parent_index integer,
        span_id varchar,
        agent varchar,
        kind varchar,
        "name" varchar,
        "input" varchar,
        "output" varchar,
        error varchar,
        started_at timestamptz,
        latency_ms double,
        tokens bigint,
        cost_usd double
    )[]
);

create table if not exists rubrics (
    rubric_id varchar,
    rubric_version varchar,
    digest varchar,
    body varchar,
    created_at timestamptz
);

create table if not exists criteria (
    rubric_id varchar,
    rubric_version varchar,
    criterion_id varchar,
    category varchar,
    weight double,
    is_gate boolean,
    threshold double,
    method varchar,
    description varchar,
    digest varchar,
    name varchar,
    rationale varchar,
    effective_weight double,
    position bigint
);

create table if not exists levels (
    rubric_id varchar,
    rubric_version varchar,
    criterion_id varchar,
    level_id varchar,
    position bigint,
    score double,
    label varchar,
    description varchar
);

create table if not exists rubric_pointers (
    rubric_id varchar,
    rubric_version varchar,
    set_at timestamptz
);

create table if not exists rubric_states (
    rubric_id varchar,
    rubric_version varchar,
    state varchar,
    set_at timestamptz
);

create table if not exists artifacts (
    artifact varchar,
    digest varchar,
    target_type varchar,
    state varchar,
    judge varchar,
    run_ids varchar[],
    provenance varchar,
    created_at timestamptz,
    set_at timestamptz
);

create table if not exists case_criteria (
    run_id varchar,
    output_id varchar,
    criterion_id varchar,
    category varchar,
    weight double,
    is_gate boolean,
    threshold double,
    method varchar,
    description varchar,
    digest varchar,
    levels struct(id varchar, score double, label varchar, description varchar)[],
    body varchar,
    question_digest varchar
);

create table if not exists judgments (
    judgment_id varchar,
    run_id varchar,
    request_key varchar,
    output_id varchar,
    criterion_id varchar,
    judge varchar,
    replicate integer,
    status varchar,
    level_id varchar,
    distribution varchar,
    rationale varchar,
    evidence varchar,
    prompt_digest varchar,
    reply varchar,
    model_returned varchar,
    system_fingerprint varchar,
    service_tier varchar,
    prompt_bytes bigint,
    prompt_tokens bigint,
    cached_tokens bigint,
    completion_tokens bigint,
    cost_usd double,
    latency_ms double,
    attempts integer,
    asked_at timestamptz
);

create table if not exists verdicts (
    run_id varchar,
    output_id varchar,
    criterion_id varchar,
    method varchar,
    status varchar,
    level_id varchar,
    score double,
    reason varchar,
    evidence varchar,
    rationale varchar,
    request_key varchar,
    is_replayed boolean
);

create table if not exists opinions (
    run_id varchar,
    output_id varchar,
    criterion_id varchar,
    judge varchar,
    replicate integer,
    is_swapped boolean,
    request_key varchar,
    status varchar,
    level_id varchar,
    score double,
    reason varchar
);

create table if not exists claims (
    run_id varchar,
    output_id varchar,
    criterion_id varchar,
    side varchar,
    claim_index bigint,
    sentence bigint,
    start bigint,
    stop bigint,
    span varchar,
    claim varchar,
    kind varchar,
    verdict varchar,
    quote varchar,
    request_key varchar
);

create table if not exists claim_verdicts (
    run_id varchar,
    output_id varchar,
    criterion_id varchar,
    side varchar,
    claim_index bigint,
    judge varchar,
    replicate integer,
    verdict varchar,
    quote varchar,
    reason varchar,
    request_key varchar
);

create table if not exists claim_ratings (
    output_id varchar,
    criterion_id varchar,
    rater varchar,
    side varchar,
    claim varchar,
    verdict varchar,
    rationale varchar,
    rated_at timestamptz,
    source varchar,
    question_digest varchar
);

create table if not exists step_verdicts (
    run_id varchar,
    output_id varchar,
    criterion_id varchar,
    step_index integer,
    label varchar,
    score double,
    error_type varchar,
    error_subtype varchar,
    severity varchar,
    rationale varchar,
    quote varchar,
    request_key varchar
);

create table if not exists step_opinions (
    run_id varchar,
    output_id varchar,
    criterion_id varchar,
    step_index integer,
    judge varchar,
    replicate integer,
    label varchar,
    score double,
    error_type varchar,
    error_subtype varchar,
    severity varchar,
    rationale varchar,
    quote varchar,
    reason varchar,
    request_key varchar
);

create table if not exists similarities (
    run_id varchar,
    output_id varchar,
    criterion_id varchar,
    similarity double,
    null_similarity double,
    other_case_count bigint,
    embedder varchar
);

create table if not exists judged_preferences (
    run_id varchar,
    output_id varchar,
    criterion_id varchar,
    other_output_id varchar,
    level_id varchar,
    shown_first varchar,
    shown_second varchar,
    request_key_first varchar,
    request_key_second varchar
);

create table if not exists ratings (
    output_id varchar,
    criterion_id varchar,
    rater varchar,
    level_id varchar,
    score double,
    notes varchar,
    rated_at timestamptz,
    source varchar,
    selection varchar,
    inclusion_rate double,
    spent_s double,
    gold_score double,
    evidence varchar,
    question_digest varchar
);

create table if not exists step_ratings (
    output_id varchar,
    criterion_id varchar,
    rater varchar,
    step_index integer,
    label varchar,
    score double,
    error_type varchar,
    error_subtype varchar,
    severity varchar,
    rationale varchar,
    rated_at timestamptz,
    source varchar,
    question_digest varchar
);

create table if not exists adjudications (
    run_id varchar,
    output_id varchar,
    criterion_id varchar,
    adjudicator varchar,
    level_id varchar,
    score double,
    cause varchar,
    confidence varchar,
    needs_rubric_update boolean,
    notes varchar,
    decided_at timestamptz,
    question_digest varchar
);

create table if not exists step_adjudications (
    run_id varchar,
    output_id varchar,
    criterion_id varchar,
    step_index integer,
    adjudicator varchar,
    label varchar,
    score double,
    error_type varchar,
    error_subtype varchar,
    severity varchar,
    cause varchar,
    confidence varchar,
    needs_rubric_update boolean,
    notes varchar,
    decided_at timestamptz,
    question_digest varchar
);

create table if not exists preferences (
    run_id varchar,
    baseline_run_id varchar,
    case_id varchar,
    output_a varchar,
    output_b varchar,
    criterion_id varchar,
    rater varchar,
    choice varchar,
    score double,
    shown_first varchar,
    notes varchar,
    rated_at timestamptz,
    inclusion_rate double,
    spent_s double,
    evidence varchar
);

create table if not exists quality_results (
    run_id varchar,
    stage varchar,
    subject varchar,
    expectation varchar,
    is_met boolean,
    severity varchar,
    unexpected_count bigint,
    observed varchar,
    engine varchar
);

create table if not exists stage_costs (
    run_id varchar,
    stage varchar,
    criterion_id varchar,
    wall_s double,
    cpu_s double,
    row_count bigint,
    request_count bigint,
    replayed_count bigint,
    prompt_tokens bigint,
    cached_tokens bigint,
    completion_tokens bigint,
    cost_usd double,
    saved_usd double
);

create table if not exists quarantine (
    run_id varchar,
    source varchar,
    line bigint,
    reason varchar,
    row varchar
);

create table if not exists output_scores (
    run_id varchar,
    output_id varchar,
    case_id varchar,
    model varchar,
    checkpoint varchar,
    sample_index integer,
    cluster varchar,
    score double,
    score_low double,
    score_high double,
    uniform_score double,
    unscored_count bigint,
    unscored_gate_count bigint,
    failed_gates varchar[],
    is_passed boolean,
    stratum varchar,
    inclusion_rate double,
    unscored_reason varchar
);

create table if not exists criterion_scores (
    run_id varchar,
    model varchar,
    checkpoint varchar,
    criterion_id varchar,
    category varchar,
    output_count bigint,
    n bigint,
    cluster_count bigint,
    mean double,
    sd double,
    ci_low double,
    ci_high double,
    pass_rate double,
    pass_low double,
    pass_high double,
    coverage_rate double,
    weight double,
    contribution double
);

create table if not exists category_scores (
    run_id varchar,
    model varchar,
    checkpoint varchar,
    category varchar,
    output_count bigint,
    n bigint,
    cluster_count bigint,
    mean double,
    sd double,
    ci_low double,
    ci_high double,
    p05 double,
    p25 double,
    p50 double,
    p75 double,
    p95 double,
    pass_rate double,
    pass_low double,
    pass_high double,
    coverage_rate double,
    weight double,
    contribution double,
    parent varchar
);

create table if not exists run_scores (
    run_id varchar,
    model varchar,
    checkpoint varchar,
    output_count bigint,
    n bigint,
    cluster_count bigint,
    mean double,
    sd double,
    ci_low double,
    ci_high double,
    p05 double,
    p25 double,
    p50 double,
    p75 double,
    p95 double,
    uniform_mean double,
    pass_rate double,
    pass_low double,
    pass_high double,
    gate_failure_rate double,
    gate_failure_low double,
    gate_failure_high double,
    coverage_rate double,
    cost_usd double,
    sample_k bigint,
    pass_at_k double,
    pass_hat_k double,
    best_of_k double,
    pass_at_k_low double,
    pass_at_k_high double,
    pass_hat_k_low double,
    pass_hat_k_high double
);

create table if not exists score_distribution (
    run_id varchar,
    model varchar,
    checkpoint varchar,
    score double,
    n bigint,
    share double
);

create table if not exists judge_noise (
    run_id varchar,
    model varchar,
    checkpoint varchar,
    criterion_id varchar,
    n bigint,
    opinion_count bigint,
    output_variance double,
    judge_variance double,
    flip_rate double,
    swap_flip_rate double,
    agreement_rate double,
    effective_votes double
);

create table if not exists agreement (
    run_id varchar,
    criterion_id varchar,
    kind varchar,
    judge varchar,
    rater varchar,
    n bigint,
    pair_count bigint,
    statistic varchar,
    value double,
    ci_low double,
    ci_high double,
    reason varchar
);

create table if not exists run_comparisons (
    run_id varchar,
    baseline_run_id varchar,
    model varchar,
    checkpoint varchar,
    baseline_model varchar,
    baseline_checkpoint varchar,
    scope varchar,
    scope_id varchar,
    category varchar,
    is_own boolean,
    n bigint,
    case_count bigint,
    moved_case_count bigint,
    mean_a double,
    mean_b double,
    mean_diff double,
    diff_low double,
    diff_high double,
    boot_low double,
    boot_high double,
    sd_diff double,
    p double,
    p_wilcoxon double,
    p_adjusted double,
    effect_size double,
    detectable_diff double,
    better_count bigint,
    worse_count bigint,
    tied_count bigint,
    better_rate double,
    better_low double,
    better_high double,
    worse_rate double,
    worse_low double,
    worse_high double,
    tied_rate double,
    tied_low double,
    tied_high double,
    dominance varchar,
    unpaired_count bigint,
    held_otherwise_count bigint,
    ambiguous_count bigint,
    unscored_count bigint,
    pass_n bigint,
    pass_rate_a double,
    pass_rate_b double,
    pass_diff double,
    pass_diff_low double,
    pass_diff_high double,
    gained_count bigint,
    lost_count bigint,
    p_mcnemar double,
    sd_a double,
    sd_b double,
    sd_ratio double,
    sd_ratio_low double,
    sd_ratio_high double,
    conflict varchar,
    caution varchar,
    part double,
    uniform_part double,
    risen_case_count bigint,
    fallen_case_count bigint,
    skewness double,
    p_family double,
    p_holm double,
    missing_a_count bigint,
    missing_b_count bigint,
    unchanged_count bigint,
    p_missing double,
    least_diff double,
    most_diff double,
    least_low double,
    most_high double,
    least_p double,
    most_p double
);

create table if not exists written_feedback (
    run_id varchar,
    output_id varchar,
    model varchar,
    checkpoint varchar,
    feedback varchar
);

create table if not exists weak_spots (
    run_id varchar,
    model varchar,
    checkpoint varchar,
    criterion_id varchar,
    slice_key varchar,
    slice_value varchar,
    n bigint,
    cluster_count bigint,
    mean double,
    ci_low double,
    ci_high double,
    rest_n bigint,
    rest_mean double,
    lift double,
    shrunk_lift double,
    p double,
    p_adjusted double,
    searched_count bigint,
    gain double,
    example_ids varchar[]
);

create table if not exists checkpoints (
    model varchar,
    checkpoint varchar,
    step bigint,
    rubric_id varchar,
    rubric_version varchar,
    run_id varchar,
    status varchar,
    reasons varchar[],
    mean double,
    latest_run_id varchar,
    best_run_id varchar,
    best_diff double,
    best_diff_low double,
    best_diff_high double,
    best_p double,
    dataset varchar,
    dataset_digest varchar,
    decided_at timestamptz
);

create table if not exists anchors (
    anchor_set varchar,
    output_id varchar,
    criterion_id varchar,
    run_id varchar,
    rubric_id varchar,
    rubric_version varchar,
    judge varchar,
    level_id varchar,
    score double,
    people_score double,
    people_count bigint,
    created_at timestamptz
);

create table if not exists anchor_verdicts (
    anchor_set varchar,
    night date,
    epoch integer,
    draw integer,
    is_reference boolean,
    judge varchar,
    judge_digest varchar,
    output_id varchar,
    criterion_id varchar,
    level_id varchar,
    score double,
    reason varchar,
    request_key varchar,
    model_returned varchar
);

create table if not exists judge_drift (
    anchor_set varchar,
    night date,
    epoch integer,
    criterion_id varchar,
    judge varchar,
    judge_digest varchar,
    model_returned varchar,
    n bigint,
    mean_gap double,
    gap_low double,
    gap_high double,
    people_n bigint,
    people_gap double,
    e_value double,
    alarm_at double,
    state varchar,
    cost_usd double,
    watched_at timestamptz
);

create table if not exists rubric_links (
    rubric_id varchar,
    old_version varchar,
    new_version varchar,
    anchor_set varchar,
    judge varchar,
    judge_digest varchar,
    scope varchar,
    scope_id varchar,
    n bigint,
    case_count bigint,
    unscored_count bigint,
    offset_mean double,
    offset_low double,
    offset_high double,
    sd_ratio double,
    sd_ratio_low double,
    sd_ratio_high double,
    slope double,
    intercept double,
    made_at timestamptz
);

create table if not exists outcomes (
    name varchar,
    grain varchar,
    output_id varchar,
    case_id varchar,
    day date,
    model varchar,
    value double,
    is_higher_better boolean,
    source varchar,
    line bigint,
    imported_at timestamptz
);
