-- int_output_scores: one row per output_number. Scores are met points over positive points (0..1 where no weight is
-- negative), rounded to 12 digits, so that equal verdicts give equal scores in whatever order they were summed.
with held as (select * from int_held_outputs),

points as (select * from int_output_points),

uneven as (select * from int_uneven_totals),

rubric as (select * from int_rubric),

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
        -- Where nothing is asked, nothing passes or fails.
        rubric.pass_threshold is not null
            or held.gate_count > 0
            or (rubric.require_thresholds and held.weighted_count > 0) as has_requirement,
    from held
    cross join rubric
    left join points on held.output_number = points.output_number
    left join uneven on held.output_number = uneven.output_number
    left join int_skip_points as skipped
        on held.output_number = skipped.output_number
        and skipped.root = ''
),

final as (
    select
        output_number,
        output_id,
        case_id,
        model,
        checkpoint,
        sample_index,
        cluster,
        case when not is_open then round(points / base_weight, 12) end as score,
        round((points + if(is_open, missing_penalty, 0.0)) / base_weight, 12) as score_low,
        round((points + if(is_open, missing_weight, 0.0)) / base_weight, 12) as score_high,
        case when not is_open then round(uniform_points / base_count, 12) end as uniform_score,
        missing_weighted_count + missing_gate_count as unscored_count,
        missing_gate_count,
        missing_threshold_count,
        below_threshold_count,
        has_requirement,
    from filled
)

select * from final
