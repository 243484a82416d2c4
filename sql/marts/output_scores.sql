-- output_scores: one row per run_id, output_id. score is 0..1 (negative weights alone take it below 0), null where
-- a weighted verdict is missing, with score_low and score_high as its bounds. is_passed is null where it is not known,
-- or there is no gate and no threshold to pass.
with scores as (select * from int_output_scores),

failures as (select * from int_failed_gates),

rubric as (select * from int_rubric),

final as (
    select
        rubric.run_id,
        scores.output_id,
        scores.case_id,
        scores.model,
        scores.checkpoint,
        scores.sample_index,
        scores.cluster,
        scores.score,
        scores.score_low,
        scores.score_high,
        scores.uniform_score,
        scores.unscored_count,
        scores.missing_gate_count as unscored_gate_count,
        coalesce(failures.failed_gates, []) as failed_gates,
        case
            when failures.output_number is not null then false
            when is_below(scores.score_high, rubric.pass_threshold) then false
            when rubric.require_thresholds and scores.below_threshold_count > 0 then false
            when scores.has_requirement
                and scores.missing_gate_count = 0
                and (rubric.pass_threshold is null or not is_below(scores.score_low, rubric.pass_threshold))
                and (not rubric.require_thresholds or scores.missing_threshold_count = 0)
                then true
        end as is_passed,
    from scores
    cross join rubric
    left join failures on scores.output_number = failures.output_number
)

select * from final
