-- outcome_days: one row per name, day, criterion_id of the model $model, $checkpoint in the last run of each day with
-- the rubric of the run $run_id, up to that run; the empty criterion_id is the overall score. score is a mean, 0..1.
with this as (select rubric_id, version from runs where run_id = $run_id),

days as (
    select found.*
    from outcome_scores as found
    inner join runs on found.run_id = runs.run_id
    where
        found.grain = 'day'
        and found.model = $model
        and found.checkpoint is not distinct from $checkpoint
        and found.rubric_id = (select rubric_id from this)
        and runs.version <= (select version from this)
    qualify row_number() over (partition by found.name, found.day order by runs.version desc) = 1
),

cells as (
    select name, shared, value, is_higher_better, '' as criterion_id, score from days
    union all
    select days.name, days.shared, days.value, days.is_higher_better, means.criterion_id, means.mean as score,
    from days
    inner join criterion_scores as means
        on days.run_id = means.run_id
        and means.model = $model
        and means.checkpoint is not distinct from $checkpoint
),

final as (
    select *
    from cells
    where score is not null
    order by name, criterion_id, shared
)

select * from final
