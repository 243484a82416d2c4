-- int_outputs_scored: one row per output_number. Scores are points met over positive points (0..1 where no weight is
-- negative), rounded to 12 digits: equal verdicts give equal scores in any order of summation. is_passed is null where
-- missing scores leave it open, or the rubric requires nothing. least_score is the lowest possible score.
-- unscored_reason is null where the output has a score.
-- materialized: table
with rubric as (select * from int_rubric_summed),

failures as (
    select output_number, list_sort(list(criterion_id)) as failed_gates,
    from int_verdicts_weighted
    where is_gate and is_below(score, pass_mark)
    group by output_number
),

-- An output without a scored verdict has no row in points: all its sums are 0.
joined as (
    select
        outputs.output_number, outputs.group_number, rubric.missing,
        coalesce(irregular.applied_totals, rubric.totals) as applied,
        coalesce(irregular.scored_totals, rubric.totals) as present,
        coalesce(irregular.excused_count - irregular.unmet_count, 0) as excused_count,
        if(rubric.missing = 'skip', present, applied) as base,
        coalesce(trees.points, points.points, 0.0) as points,
        trees.positive_weight as tree_weight,
        coalesce(points.uniform_points, 0.0) as uniform_points,
        coalesce(points.below_threshold_count, 0) as below_threshold_count,
    from int_outputs_numbered as outputs
    cross join rubric
    left join int_irregular_outputs_summed as irregular on outputs.output_number = irregular.output_number
    left join int_output_points_summed as points on outputs.output_number = points.output_number
    left join int_trees_reweighted as trees on outputs.output_number = trees.output_number and trees.root = ''
),

scored as (
    select
        *,
        applied.weighted_count - present.weighted_count as missing_weighted_count,
        applied.gate_count - present.gate_count as missing_gate_count,
        missing = 'null' and missing_weighted_count > 0 as is_open,
        nullif(coalesce(tree_weight, base.positive_weight), 0.0) as base_weight,
        if(is_open, applied.positive_weight - present.positive_weight, 0.0) as open_weight,
        if(is_open, applied.negative_weight - present.negative_weight, 0.0) as open_penalty,
        if(is_open, null, round(points / base_weight, 12)) as score,
        round((points + open_penalty) / base_weight, 12) as score_low,
        round((points + open_weight) / base_weight, 12) as score_high,
        least(base.negative_weight / base_weight, 0.0) as least_score,
        if(is_open, null, round(uniform_points / nullif(base.positive_count, 0), 12)) as uniform_score,
    from joined
),

final as (
    select
        scored.output_number, scored.group_number,
        scored.score, scored.score_low, scored.score_high, scored.uniform_score, scored.least_score,
        scored.missing_weighted_count + scored.excused_count + scored.missing_gate_count as unscored_count,
        scored.missing_gate_count as unscored_gate_count,
        failures.failed_gates, scored.applied.gate_count,
        case
            when scored.score is not null then null
            when scored.applied.weighted_count = 0 then 'no_weights: no criterion with a weight applies'
            when scored.applied.positive_weight <= 0 then 'only_penalties: no criterion that applies gives points'
            else 'unscored_criteria: a criterion with a weight has no score'
        end as unscored_reason,
        case
            when failures.output_number is not null or is_below(scored.score_high, rubric.pass_threshold) then false
            when rubric.require_thresholds and scored.below_threshold_count > 0 then false
            when (rubric.pass_threshold is not null or scored.applied.gate_count > 0
                    or (rubric.require_thresholds and scored.applied.weighted_count > 0))
                and scored.missing_gate_count = 0
                and (rubric.pass_threshold is null or not is_below(scored.score_low, rubric.pass_threshold))
                and (not rubric.require_thresholds or scored.applied.threshold_count = scored.present.threshold_count)
                then true
        end as is_passed,
    from scored
    cross join rubric
    left join failures on scored.output_number = failures.output_number
)

select * from final
