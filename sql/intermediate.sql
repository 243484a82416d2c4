-- Columns of the intermediate models with "empty without" in their header: without rows they are made from here, as a
-- mart is from columns.yml. A test compares them with the models, and prints this file where it differs.

create table if not exists int_trees_summed (
    root varchar,
    positive_weight double
);

create table if not exists int_outputs_sliced (
    output_number integer,
    slice_number integer,
    model varchar,
    checkpoint varchar,
    slice_key varchar,
    slice_value varchar
);

create table if not exists int_outputs_weighted (
    output_number integer,
    group_number integer,
    case_number integer,
    stratum_number integer,
    shared_weight double,
    weight bigint,
    case_weight bigint,
    dataset_case_count double
);

create table if not exists int_conditional_gaps (
    output_number integer,
    group_number integer,
    criterion_number integer,
    criterion_id varchar,
    weight double,
    is_weighted boolean,
    is_gate boolean,
    threshold double,
    is_unmet boolean,
    is_owed boolean
);

create table if not exists int_verdicts_reweighted (
    output_number integer,
    criterion_number integer,
    weight bigint
);

create table if not exists int_categories_applied (
    output_number integer,
    category_number integer,
    base_weight double,
    penalty_weight double,
    weighted_count hugeint,
    mark_count hugeint,
    is_out boolean
);

create table if not exists int_trees_reweighted (
    output_number integer,
    root varchar,
    points double,
    positive_weight double
);

create table if not exists int_slices_ranked (
    scope_id varchar,
    slice_number integer,
    model varchar,
    checkpoint varchar,
    slice_key varchar,
    slice_value varchar,
    criterion_id varchar,
    output_count bigint,
    n bigint,
    mean double,
    sd double,
    skewness double,
    pass_count bigint,
    pass_rate double,
    output_weight hugeint,
    rest_n bigint,
    rest_mean double,
    share double,
    is_gate boolean,
    weight double,
    direction decimal(2,1),
    shortfall double,
    loss double,
    all_n bigint,
    all_sd double,
    all_skewness double
);

create table if not exists int_measures_weighted (
    scope varchar,
    scope_id varchar,
    output_number integer,
    score_weight bigint,
    pass_weight bigint,
    gate_weight bigint
);

create table if not exists int_scores_weighted (
    scope varchar,
    scope_id varchar,
    group_number integer,
    mean double,
    sd double,
    pass_rate double,
    gate_failure_rate double
);

create table if not exists int_clusters_compared (
    scope varchar,
    scope_id varchar,
    model varchar,
    checkpoint varchar,
    score_spread struct(unit_count bigint, standard_error double, df double, skewness double),
    pass_spread struct(unit_count bigint, standard_error double, df double, skewness double),
    gate_spread struct(unit_count bigint, standard_error double, df double, skewness double),
    at_spread struct(unit_count bigint, standard_error double, df double, skewness double),
    hat_spread struct(unit_count bigint, standard_error double, df double, skewness double)
);

create table if not exists int_samples_summed (
    group_number integer,
    sample_k bigint,
    pass_at_k double,
    pass_hat_k double,
    at_ends struct(low double, high double),
    hat_ends struct(low double, high double),
    best_of_k double
);

create table if not exists int_slices_tested (
    scope_id varchar,
    p double,
    p_adjusted double,
    searched_count bigint,
    shrunk_shortfall double,
    level double
);
