-- changed_cases: one row: how many cases the runs $run_a and $run_b have in common, and how many of these were asked in
-- another way. A case counts if no output of the one run has the text of an output of the other: system_count of its
-- system messages, prompt_count of the rest of the prompt, context_count of its passages, reference_count of its
-- reference. Outputs that both runs have are not read.
with scored as (
    select distinct run_id = $run_b as is_b, case_id, output_id
    from output_scores
    where run_id in ($run_a, $run_b)
),

cases as (
    select case_id, count(distinct is_b) = 2 as is_common
    from scored
    group by case_id
),

unlike as (
    select any_value(is_b) as is_b, case_id, output_id
    from scored
    where case_id in (select case_id from cases where is_common)
    group by case_id, output_id
    having count(*) = 1
),

digests as (
    select distinct
        output_id,
        if(prompt like '[%' and json_valid(prompt), json_extract(prompt, '$[*]'), []) as messages,
        hash(list_filter(messages, lambda message: message ->> 'role' in ('system', 'developer'))) as system,
        list_filter(messages, lambda message: message ->> 'role' not in ('system', 'developer')) as asked,
        if(len(messages) > 0, hash(asked), hash(prompt)) as prompt,
        hash(context) as context,
        hash(reference) as reference,
    from outputs
    where output_id in (select output_id from unlike)
),

sides as (
    select
        unlike.case_id,
        list(digests.system) filter (not unlike.is_b) as system_a,
        list(digests.system) filter (unlike.is_b) as system_b,
        list(digests.prompt) filter (not unlike.is_b) as prompt_a,
        list(digests.prompt) filter (unlike.is_b) as prompt_b,
        list(digests.context) filter (not unlike.is_b) as context_a,
        list(digests.context) filter (unlike.is_b) as context_b,
        list(digests.reference) filter (not unlike.is_b) as reference_a,
        list(digests.reference) filter (unlike.is_b) as reference_b,
    from unlike
    inner join digests on unlike.output_id = digests.output_id
    group by unlike.case_id
),

final as (
    select
        (select count(*) from cases where is_common) as common_count,
        count(*) filter (not list_has_any(system_a, system_b)) as system_count,
        count(*) filter (not list_has_any(prompt_a, prompt_b)) as prompt_count,
        count(*) filter (not list_has_any(context_a, context_b)) as context_count,
        count(*) filter (not list_has_any(reference_a, reference_b)) as reference_count,
    from sides
)

select * from final
