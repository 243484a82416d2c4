-- latest_baseline: at most one row: the run_id of the newest of earlier_runs that can be compared with a run: with a
-- model and checkpoint in common, or with a model of which each has one checkpoint. $groups: files of the run's outputs
-- or of its mart run_scores.
with own as (
    select model, checkpoint, count(*) over (partition by model) as checkpoint_count
    from (select distinct model, checkpoint from read_parquet($groups))
),

final as (
    select earlier.run_id
    from {comparing/earlier_runs} as earlier
    inner join own on earlier.model = own.model
    where
        earlier.checkpoint is not distinct from own.checkpoint
        or (earlier.checkpoint_count = 1 and own.checkpoint_count = 1)
    order by earlier.night desc, earlier.version desc
    limit 1
)

select * from final
