-- criterion_requirements: one row per model, checkpoint, criterion_id of the rubric of the run $run_id, in order: the
-- mean, its interval and the threshold, 0..1, that it is checked against; of a gate, the rate of outputs that pass and
-- the rate that may fail. is_optional: it does not apply to the outputs without a score. failure_count: outputs that
-- fail the gate.
with optional as (from {published/optional_criteria}),

failures as (from {published/gate_failures}),

given as (
    select unnest(rubrics.body::json -> '$.criteria[*]') as criterion
    from runs
    inner join rubrics on runs.rubric_id = rubrics.rubric_id and runs.rubric_version = rubrics.rubric_version
    where runs.run_id = $run_id
),

tolerated as (
    select
        criterion ->> 'id' as criterion_id,
        (criterion ->> 'max_failure_rate')::double as max_failure_rate,
    from given
),

final as (
    select
        scores.model,
        scores.checkpoint,
        scores.criterion_id,
        scores.n,
        scores.output_count,
        scores.cluster_count,
        scores.mean,
        scores.sd,
        scores.ci_low,
        scores.ci_high,
        scores.pass_rate,
        scores.pass_low,
        criteria.is_gate,
        criteria.threshold,
        tolerated.max_failure_rate,
        coalesce(failures.failure_count, 0) as failure_count,
        scores.output_count = 0 or criteria.criterion_id in (select criterion_id from optional) as is_optional,
    from criterion_scores as scores
    inner join runs on scores.run_id = runs.run_id
    inner join criteria
        on runs.rubric_id = criteria.rubric_id
        and runs.rubric_version = criteria.rubric_version
        and scores.criterion_id = criteria.criterion_id
    left join tolerated on scores.criterion_id = tolerated.criterion_id
    left join failures
        on scores.model = failures.model
        and scores.checkpoint is not distinct from failures.checkpoint
        and scores.criterion_id = failures.criterion_id
    where scores.run_id = $run_id
    order by scores.model, scores.checkpoint, scores.criterion_id
)

select * from final
