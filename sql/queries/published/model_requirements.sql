-- model_requirements: one row per model, checkpoint of the run $run_id, in order: what the rubric's requirements are
-- checked against. Scores are 0..1; mean_low, mean_high: the mean if each missing score were the lowest, the highest
-- possible. gate_failure_count: outputs that fail a gate which tolerates none; $tolerant_ids has the others.
-- own_gap_count: outputs with an unscored gate of their own; own_gate_count: outputs with such a gate;
-- own_failure_count: those that fail it.
with own_gates as (
    select
        own.output_id,
        bool_or(verdicts.score is null) as has_gap,
        list(own.criterion_id) as criterion_ids,
    from case_criteria as own
    left join verdicts
        on own.run_id = verdicts.run_id
        and own.output_id = verdicts.output_id
        and own.criterion_id = verdicts.criterion_id
    where own.run_id = $run_id and own.is_gate
    group by own.output_id
),

bounds as (
    select
        scores.model,
        scores.checkpoint,
        count(*) filter (
            len(list_filter(scores.failed_gates, lambda name: not list_contains($tolerant_ids::varchar[], name))) > 0
        ) as gate_failure_count,
        count(*) filter (own_gates.has_gap) as own_gap_count,
        count(own_gates.output_id) as own_gate_count,
        count(*) filter (list_has_any(scores.failed_gates, own_gates.criterion_ids)) as own_failure_count,
        avg(coalesce(scores.score_low, 0)) as mean_low,
        avg(coalesce(scores.score_high, 1)) as mean_high,
    from output_scores as scores
    left join own_gates on scores.output_id = own_gates.output_id
    where scores.run_id = $run_id
    group by scores.model, scores.checkpoint
),

final as (
    select
        scores.model,
        scores.checkpoint,
        scores.n,
        scores.output_count,
        scores.cluster_count,
        scores.mean,
        scores.sd,
        scores.ci_low,
        scores.ci_high,
        bounds.gate_failure_count,
        bounds.own_gap_count,
        bounds.own_gate_count,
        bounds.own_failure_count,
        bounds.mean_low,
        bounds.mean_high,
    from run_scores as scores
    inner join bounds on scores.model = bounds.model and scores.checkpoint is not distinct from bounds.checkpoint
    where scores.run_id = $run_id
    order by scores.model, scores.checkpoint
)

select * from final
