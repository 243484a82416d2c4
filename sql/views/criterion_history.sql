-- criterion_history: one row per run_id, model, checkpoint, criterion_id of the published runs. The previous mean is
-- from the run named in score_history. change is known where both runs used the same text; for per-case criteria, where
-- both runs had one text under the id, or the same texts in the same shares.
with own as (
    select
        run_id,
        criterion_id,
        case
            when count(digest) < count(*) then null
            when min(digest) = max(digest) then min(digest)
            else (sum(hash(digest)) // count(*))::varchar
        end as digest,
    from case_criteria
    group by run_id, criterion_id
),

published as (
    select
        history.rubric_id, history.version, history.finished_at, history.rubric_version, history.previous_run_id,
        history.previous_checkpoint, scores.*,
        case when criteria.criterion_id is null then own.digest else criteria.digest end as digest,
    from criterion_scores as scores
    inner join score_history as history
        on scores.run_id = history.run_id
        and scores.model = history.model
        and scores.checkpoint is not distinct from history.checkpoint
    left join criteria
        on history.rubric_id = criteria.rubric_id
        and history.rubric_version = criteria.rubric_version
        and scores.criterion_id = criteria.criterion_id
    left join own on scores.run_id = own.run_id and scores.criterion_id = own.criterion_id
),

final as (
    select
        now.model,
        now.checkpoint,
        now.criterion_id,
        now.rubric_id,
        now.version,
        now.run_id,
        now.finished_at,
        now.rubric_version,
        now.n,
        now.mean,
        now.ci_low,
        now.ci_high,
        now.pass_rate,
        now.coverage_rate,
        now.previous_run_id,
        earlier.mean as previous_mean,
        case when now.digest = earlier.digest then now.mean - earlier.mean end as change,
    from published as now
    left join published as earlier
        on now.previous_run_id = earlier.run_id
        and now.model = earlier.model
        and now.previous_checkpoint is not distinct from earlier.checkpoint
        and now.criterion_id = earlier.criterion_id
)

select * from final
