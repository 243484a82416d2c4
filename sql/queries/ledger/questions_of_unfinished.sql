-- questions_of_unfinished: one row per output_id, criterion_id, replicate that an unfinished run plans to ask its judge
-- about, from the run's files $plans and $shards. is_scored and all of a reply are null: the ledger has them.
with final as (
    select
        shards.case_id,
        shards.model,
        shards.checkpoint,
        shards.sample_index,
        plans.output_id,
        plans.criterion_id,
        plans.request_key,
        plans.replicate,
        null::boolean as is_scored,
        null::varchar as level_id,
        null::varchar as reason,
        null::varchar as evidence,
        null::varchar as rationale,
    from read_parquet($plans) as plans
    inner join read_parquet($shards) as shards on plans.output_id = shards.output_id
    where not plans.is_swapped
)

select * from final
