-- reply_kinds: one row per judge, status, model_returned of the replies behind the verdicts of the run $run_id: the
-- reply to each question that gave a level, paid for by any run, and the useless replies that this run paid for.
with asked as (
    select request_key from verdicts where run_id = $run_id and request_key is not null
    union
    select request_key from opinions where run_id = $run_id and request_key is not null
),

final as (
    select judge, status, model_returned, count(*) as reply_count,
    from judgments
    where request_key in (select request_key from asked) and (status = 'scored' or run_id = $run_id)
    group by judge, status, model_returned
)

select * from final
