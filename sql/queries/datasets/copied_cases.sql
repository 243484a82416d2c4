-- copied_cases: one row per case_id, first_case of the files $shards that have prompt, context and output of a model,
-- of 40 characters or more, in common, without a cluster; first_case: the lowest id of such cases, another one.
with stored as (
    select case_id, hash(prompt, context, output, model) as row_hash,
    from read_parquet($shards)
    where prompt <> '' and cluster is null and length(prompt) + length(output) >= 40
),

copies as (
    select row_hash, min(case_id) as first_case
    from stored
    group by row_hash
    having count(distinct case_id) > 1
),

final as (
    select distinct stored.case_id, copies.first_case
    from stored
    inner join copies on stored.row_hash = copies.row_hash
    where stored.case_id <> copies.first_case
)

select * from final
