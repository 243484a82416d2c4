-- int_scores_clustered: one row per scope (criterion, category, run or slice), scope_id, output_number of
-- int_outputs_clustered: its score, pass and gate (1 or 0, as in int_values_clustered), each with its weight; null
-- where the weight is that of the output.
with outputs as (select * from int_outputs_clustered),

-- Restricted to these outputs first, so that a run without clusters reads nothing.
verdicts as (
    select verdicts.*, reweighted.weight as own_weight,
    from int_verdicts_weighted as verdicts
    semi join outputs on verdicts.output_number = outputs.output_number
    left join int_verdicts_reweighted as reweighted
        on verdicts.output_number = reweighted.output_number
        and verdicts.criterion_number = reweighted.criterion_number
),

slices as (
    select outputs.output_number, spots.scope_id, spots.criterion_id,
    from int_outputs_sliced as outputs
    inner join int_slices_ranked as spots on outputs.slice_number = spots.slice_number
),

scores as (
    select scores.*, weights.score_weight, weights.pass_weight, weights.gate_weight,
    from int_scores_unioned as scores
    semi join outputs on scores.output_number = outputs.output_number
    left join int_measures_weighted as weights
        on scores.scope = weights.scope
        and scores.scope_id = weights.scope_id
        and scores.output_number = weights.output_number
),

final as (
    select output_number, 'criterion' as scope, criterion_id as scope_id, score,
        1.0 - is_below(score, pass_mark)::integer as pass, null as gate,
        own_weight as score_weight, own_weight as pass_weight, null as gate_weight,
    from verdicts
    union all
    select
        slices.output_number, 'slice' as scope, slices.scope_id,
        verdicts.score, 1.0 - is_below(verdicts.score, verdicts.pass_mark)::integer as pass, null as gate,
        own_weight as score_weight, own_weight as pass_weight, null as gate_weight,
    from slices
    inner join verdicts
        on slices.output_number = verdicts.output_number
        and slices.criterion_id = verdicts.criterion_id
    where not verdicts.is_per_case
    union all
    select output_number, scope, scope_id, score, is_passed::integer as pass, is_gate_failed::integer as gate,
        score_weight, pass_weight, gate_weight,
    from scores
)

select * from final
