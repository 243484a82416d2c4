-- first_questions: one row per case_id without a cluster, at most $most, of the files $shards in their order: the first
-- 400 characters of its first prompt and of its context, where the prompt has $least characters or more.
with stored as (
    select case_id, prompt, context, cluster, file_row_number as position,
    from read_parquet($shards, file_row_number = true)
    where cluster is null and length(prompt) >= $least
),

final as (
    select
        case_id,
        left(arg_min(prompt, position), 400) || ' ' || coalesce(left(arg_min(context::varchar, position), 400), '')
            as question,
    from stored
    group by case_id
    order by min(position)
    limit $most
)

select * from final
