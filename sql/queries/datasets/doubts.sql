-- doubts: one row about the outputs in the files $shards: counts of outputs, empty ones and ones without a prompt; the
-- cases whose outputs answer different prompts, their count and the first by name.
with stored as (
    select
        case_id,
        not regexp_matches(output, '\S') as is_empty,
        coalesce(prompt, '') = '' as is_unasked,
        case when prompt <> '' then hash(prompt) end as prompt_hash,
    from read_parquet($shards)
),

by_case as (
    select
        case_id,
        count(*) as output_count,
        count(*) filter (is_empty) as empty_count,
        count(*) filter (is_unasked) as unasked_count,
        coalesce(min(prompt_hash) <> max(prompt_hash), false) as has_several,
    from stored
    group by case_id
),

final as (
    select
        coalesce(sum(output_count), 0)::bigint as output_count,
        coalesce(sum(empty_count), 0)::bigint as empty_count,
        coalesce(sum(unasked_count), 0)::bigint as unasked_count,
        count(*) filter (has_several) as mixed_count,
        min(case_id) filter (has_several) as mixed_case,
    from by_case
)

select * from final
