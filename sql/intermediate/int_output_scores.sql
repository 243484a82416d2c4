-- int_output_scores: one row per output_number. Scores are met points over positive points (0..1 where no weight is
-- negative), rounded to 12 digits, so that equal verdicts give equal scores in whatever order they were summed.
-- is_passed is null where missing scores leave it open, or the rubric requires nothing.
-- materialized: table
with rubric as (select * from int_rubric),

failures as (
    select output_number, list_sort(list(criterion_id)) as failed_gates,
    from int_scored_verdicts
    where is_gate and is_below(score, pass_mark)
    group by output_number
),

-- An output without a scored verdict has no row in points: all its sums are 0. One that is not uneven lacks nothing.
filled as (
    select
        held.*,
        coalesce(skipped.points, points.points, 0.0) as points,
        coalesce(points.uniform_points, 0.0) as uniform_points,
        coalesce(held.positive_weight - uneven.positive_weight, 0.0) as missing_weight,
        coalesce(held.negative_weight - uneven.negative_weight, 0.0) as missing_penalty,
        coalesce(held.weighted_count - uneven.weighted_count, 0) as missing_weighted_count,
        coalesce(held.gate_count - uneven.gate_count, 0) as missing_gate_count,
        coalesce(held.threshold_count - uneven.threshold_count, 0) as missing_threshold_count,
        coalesce(points.below_threshold_count, 0) as below_threshold_count,
        rubric.missing = 'null' and missing_weighted_count > 0 as is_open,
        coalesce(skipped.positive_weight, uneven.positive_weight, held.positive_weight) as scored_weight,
        nullif(if(rubric.missing = 'skip', scored_weight, held.positive_weight), 0.0) as base_weight,
        coalesce(uneven.positive_count, held.positive_count) as met_count,
        nullif(if(rubric.missing = 'skip', met_count, held.positive_count), 0) as base_count,
    from int_held_outputs as held
    cross join rubric
    left join int_output_points as points on held.output_number = points.output_number
    left join int_uneven_totals as uneven on held.output_number = uneven.output_number
    left join int_skip_points as skipped
        on held.output_number = skipped.output_number
        and skipped.root = ''
),

scored as (
    select
        *,
        case when not is_open then round(points / base_weight, 12) end as score,
        round((points + if(is_open, missing_penalty, 0.0)) / base_weight, 12) as score_low,
        round((points + if(is_open, missing_weight, 0.0)) / base_weight, 12) as score_high,
        case when not is_open then round(uniform_points / base_count, 12) end as uniform_score,
    from filled
),

final as (
    select
        scored.output_number,
        scored.group_number,
        scored.score,
        scored.score_low,
        scored.score_high,
        scored.uniform_score,
        scored.missing_weighted_count + scored.missing_gate_count as unscored_count,
        scored.missing_gate_count as unscored_gate_count,
        failures.failed_gates,
        case
            when failures.output_number is not null then false
            when is_below(scored.score_high, rubric.pass_threshold) then false
            when rubric.require_thresholds and scored.below_threshold_count > 0 then false
            -- Where nothing is required, nothing passes.
            when (rubric.pass_threshold is not null
                    or scored.gate_count > 0
                    or (rubric.require_thresholds and scored.weighted_count > 0))
                and scored.missing_gate_count = 0
                and (rubric.pass_threshold is null or not is_below(scored.score_low, rubric.pass_threshold))
                and (not rubric.require_thresholds or scored.missing_threshold_count = 0)
                then true
        end as is_passed,
    from scored
    cross join rubric
    left join failures on scored.output_number = failures.output_number
)

select * from final
