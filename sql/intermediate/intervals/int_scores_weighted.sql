-- int_scores_weighted: one row per scope (category or run), scope_id, group_number of outputs with weights
-- (int_measures_weighted): the weighted figures of int_scores_averaged.
-- empty without: int_cases_weighted
-- materialized: table
with final as (
    select
        scores.scope,
        scores.scope_id,
        scores.group_number,
        mean_of_counted(scores.score, weights.score_weight) as mean,
        sd_of_counted(scores.score, 1, weights.score_weight) as sd,
        coalesce(sum(weights.pass_weight) filter (scores.is_passed), 0)
            / sum(weights.pass_weight) filter (scores.is_passed is not null) as pass_rate,
        coalesce(sum(weights.gate_weight) filter (scores.is_gate_failed), 0)
            / sum(weights.gate_weight) filter (scores.is_gate_failed is not null) as gate_failure_rate,
    from int_scores_unioned as scores
    inner join int_measures_weighted as weights
        on scores.scope = weights.scope
        and scores.scope_id = weights.scope_id
        and scores.output_number = weights.output_number
    group by scores.scope, scores.scope_id, scores.group_number
)

select * from final
