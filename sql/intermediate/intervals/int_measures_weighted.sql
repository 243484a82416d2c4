-- int_measures_weighted: one row per scope (category or run), scope_id, output_number with a weight: those of its
-- score, its pass and its gates (int_outputs_weighted). Where cases have unlike numbers of outputs, the outputs for
-- which a measure is known share the weight of their case.
-- empty without: int_cases_weighted
-- materialized: table
with counted as (
    select
        scores.scope,
        scores.scope_id,
        scores.output_number,
        weights.weight,
        weights.shared_weight,
        nullif(count(scores.score) over cases, 0) as score_count,
        nullif(count(scores.is_passed) over cases, 0) as pass_count,
        nullif(count(scores.is_gate_failed) over cases, 0) as gate_count,
    from int_scores_unioned as scores
    inner join int_outputs_weighted as weights on scores.output_number = weights.output_number
    window cases as (partition by scores.scope, scores.scope_id, weights.case_number)
),

final as (
    select
        scope,
        scope_id,
        output_number,
        if(shared_weight is null, weight, greatest(round(shared_weight / score_count), 1.0))::bigint as score_weight,
        if(shared_weight is null, weight, greatest(round(shared_weight / pass_count), 1.0))::bigint as pass_weight,
        if(shared_weight is null, weight, greatest(round(shared_weight / gate_count), 1.0))::bigint as gate_weight,
    from counted
)

select * from final
