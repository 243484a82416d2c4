-- filtered_outputs: one row per output_id of the run $run_id that passes all conditions. value: its score on the
-- criterion $criterion_id, 0..1, or its overall score where that is null; level_id: its level on that criterion.
-- is_failed: a gate failed. baseline_score: its case's score in the run $baseline_run_id by the same model and sample,
-- null without one.
with judged as (
    select output_id, level_id, score from verdicts where run_id = $run_id and criterion_id = $criterion_id
),

baseline as (
    select case_id, model, checkpoint, sample_index, any_value(score) as score, count(*) as output_count
    from output_scores
    where run_id = $baseline_run_id
    group by case_id, model, checkpoint, sample_index
),

final as (
    select
        scores.output_id,
        scores.case_id,
        scores.model,
        scores.checkpoint,
        scores.sample_index,
        scores.score,
        if($criterion_id is null, scores.score, judged.score) as value,
        judged.level_id,
        len(scores.failed_gates) > 0 as is_failed,
        if(baseline.output_count = 1, baseline.score, null) as baseline_score,
    from output_scores as scores
    left join judged on scores.output_id = judged.output_id
    left join baseline
        on scores.case_id = baseline.case_id
        and scores.model = baseline.model
        and scores.checkpoint is not distinct from baseline.checkpoint
        and scores.sample_index = baseline.sample_index
    where scores.run_id = $run_id and {conditions}
)

select * from final
