-- reused_verdicts: one row per output_id, criterion_id of the run $source_run_id, as a verdict of the run $run_id;
-- without the criteria $dropped. Each usable reply of a judge is replayed.
with final as (
    select
        $run_id as run_id,
        * exclude (run_id, is_replayed),
        is_replayed or (request_key is not null and status = 'scored') as is_replayed,
    from verdicts
    where run_id = $source_run_id and not list_contains($dropped::varchar[], criterion_id)
)

select * from final
