-- doubts: one row about the outputs in the files $shards: counts of outputs, empty ones and ones without a prompt; the
-- cases whose outputs answer different prompts, those with several outputs of one model, checkpoint and sample_index:
-- their count and the first by name; cases that have prompt, context and output of a model, of 40 characters or more,
-- in common with a case of another id, without a cluster: their count and the first two by name.
with stored as (
    select
        case_id,
        model,
        checkpoint,
        sample_index,
        not regexp_matches(output, '\S') as is_empty,
        coalesce(prompt, '') = '' as is_unasked,
        case when prompt <> '' then hash(prompt) end as prompt_hash,
        case when prompt <> '' and cluster is null and length(prompt) + length(output) >= 40
            then hash(prompt, context, output, model)
        end as row_hash,
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

shared as (
    select case_id
    from stored
    group by case_id, model, checkpoint, sample_index
    having count(*) > 1
),

doubled as (
    select
        unnest(cases) as case_id,
        cases[1] as first_case,
        cases[2] as second_case,
    from (
        select list_sort(list_distinct(list(case_id))) as cases
        from stored
        where row_hash is not null
        group by row_hash
    )
    where len(cases) > 1
),

of_doubled as (
    select
        count(distinct case_id) as doubled_count,
        min_by(second_case, first_case) as second_case,
        min(first_case) as first_case,
    from doubled
),

final as (
    select
        any_value(of_doubled.doubled_count) as doubled_count,
        any_value(of_doubled.first_case) as doubled_case,
        any_value(of_doubled.second_case) as other_case,
        coalesce(sum(output_count), 0)::bigint as output_count,
        coalesce(sum(empty_count), 0)::bigint as empty_count,
        coalesce(sum(unasked_count), 0)::bigint as unasked_count,
        count(*) filter (has_several) as mixed_count,
        min(case_id) filter (has_several) as mixed_case,
        (select count(distinct case_id) from shared) as shared_count,
        (select min(case_id) from shared) as shared_case,
    from of_doubled
    left join by_case on true
)

select * from final
