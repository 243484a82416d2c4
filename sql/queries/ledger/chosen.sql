-- chosen: one row per judgment_id that the run $run_id paid for, or that its verdicts or opinions use; of all
-- judgments if $run_id is null.
with final as (
    select judgment_id
    from judgments
    where
        $run_id is null
        or run_id = $run_id
        or request_key in (select request_key from verdicts where run_id = $run_id)
        or request_key in (select request_key from opinions where run_id = $run_id)
)

select * from final
