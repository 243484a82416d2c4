-- run_keys: one row per request_key behind the verdicts of the run $run_id on the criterion $criterion_id and the
-- outputs $output_ids, with those of every vote.
with used as (
    select output_id, request_key
    from verdicts
    where run_id = $run_id and criterion_id = $criterion_id
    union all
    select output_id, request_key
    from opinions
    where run_id = $run_id and criterion_id = $criterion_id
),

final as (
    select distinct request_key
    from used
    where request_key is not null and list_contains($output_ids, output_id)
)

select * from final
