-- output_scores: one row per run_id, output_id. score is 0..1 (below 0 only through negative weights), null where a
-- weighted verdict is missing, with score_low and score_high as its bounds. is_passed is null where unknown, or where
-- the rubric has no gate and no threshold to pass. unscored_reason says why there is no score. stratum and
-- inclusion_rate are those of a sample by stratum.
with run as (select * from stg_run),

outputs as (select * from int_outputs_numbered),

scores as (select * from int_outputs_scored),

final as (
    select
        run.run_id,
        outputs.output_id,
        outputs.case_id,
        outputs.model,
        outputs.checkpoint,
        outputs.sample_index,
        outputs.cluster,
        scores.score,
        scores.score_low,
        scores.score_high,
        scores.uniform_score,
        scores.unscored_count,
        scores.unscored_gate_count,
        coalesce(scores.failed_gates, []) as failed_gates,
        scores.is_passed,
        weights.stratum,
        weights.inclusion_rate,
        scores.unscored_reason,
    from scores
    inner join outputs on scores.output_number = outputs.output_number
    left join stg_case_weights as weights on outputs.case_id = weights.case_id
    cross join run
)

select * from final
