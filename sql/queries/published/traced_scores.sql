-- traced_scores: one row per output of the run $run_id that came from a trace, and criterion with a score; and one for
-- the output's own score, named after the rubric, without a method. scored_at: when the run ended.
with run as (
    select
        rubric_id,
        finished_at as scored_at,
    from runs
    where run_id = $run_id
),

of_criteria as (
    select
        output_id,
        criterion_id as name,
        score,
        level_id as label,
        rationale as explanation,
        method,
    from verdicts
    where run_id = $run_id and score is not null
),

of_outputs as (
    select
        output_id,
        rubric_id as name,
        score,
        case when is_passed then 'pass' when not is_passed then 'fail' end as label,
    from output_scores
    cross join run
    where run_id = $run_id and score is not null
),

scored as (
    select * from of_criteria
    union all by name
    select * from of_outputs
),

final as (
    select
        outputs.metadata ->> '$.trace_id' as trace_id,
        outputs.steps[1].span_id as span_id,
        outputs.model,
        scored.*,
        run.scored_at,
    from scored
    inner join outputs on scored.output_id = outputs.output_id
    cross join run
    where json_valid(outputs.metadata) and (outputs.metadata ->> '$.trace_id') is not null
    order by trace_id, outputs.output_id, scored.method is null, scored.name
)

select * from final
