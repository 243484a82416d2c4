-- baseline_candidates: one row per run_id of earlier_runs that can be compared with a run: with a model and checkpoint
-- in common, or with a model of which each has one checkpoint. The newest first; before them, those over outputs of the
-- name $dataset with all of the run's models. models: those in common; mean: of these, 0..1. $groups: files of the
-- run's outputs or of its mart run_scores.
with own as (
    select model, checkpoint, count(*) over (partition by model) as checkpoint_count
    from (select distinct model, checkpoint from read_parquet($groups))
),

final as (
    select
        earlier.run_id,
        any_value(earlier.rubric_digest) as rubric_digest,
        any_value(earlier.judge) as judge,
        avg(earlier.mean) as mean,
        list(distinct earlier.model) as models,
    from {comparing/earlier_runs} as earlier
    inner join own on earlier.model = own.model
    where
        earlier.checkpoint is not distinct from own.checkpoint
        or (earlier.checkpoint_count = 1 and own.checkpoint_count = 1)
    group by earlier.run_id
    order by
        coalesce(any_value(earlier.dataset) = $dataset, false) and count(*) = (select count(*) from own) desc,
        any_value(earlier.night) desc,
        any_value(earlier.version) desc
)

select * from final
