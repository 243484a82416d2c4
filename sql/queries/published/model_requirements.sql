-- model_requirements: one row per model, checkpoint of the run $run_id, in order: what the rubric's requirements are
-- checked against. Scores are 0..1; mean_low: the mean if each missing score were the lowest possible. own_gap_count:
-- outputs with an unscored gate of their own.
with own_gate_gaps as (
    select verdicts.output_id
    from verdicts
    inner join case_criteria as own
        on verdicts.run_id = own.run_id
        and verdicts.output_id = own.output_id
        and verdicts.criterion_id = own.criterion_id
    where verdicts.run_id = $run_id and own.run_id = $run_id and own.is_gate and verdicts.score is null
),

bounds as (
    select
        model,
        checkpoint,
        count(*) filter (len(failed_gates) > 0) as gate_failure_count,
        count(*) filter (output_id in (select output_id from own_gate_gaps)) as own_gap_count,
        avg(coalesce(score_low, 0)) as mean_low,
    from output_scores
    where run_id = $run_id
    group by model, checkpoint
),

final as (
    select
        scores.model,
        scores.checkpoint,
        scores.n,
        scores.output_count,
        scores.mean,
        bounds.gate_failure_count,
        bounds.own_gap_count,
        bounds.mean_low,
    from run_scores as scores
    inner join bounds on scores.model = bounds.model and scores.checkpoint is not distinct from bounds.checkpoint
    where scores.run_id = $run_id
    order by scores.model, scores.checkpoint
)

select * from final
