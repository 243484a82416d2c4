-- reply_kinds: one row per judge, status, model_returned of the replies behind a run's verdicts. $1: the run. Per
-- question: the reply that gave a level, whoever paid for it, and the unusable replies that this run paid for.
with asked as (
    select request_key from verdicts where run_id = $1 and request_key is not null
    union
    select request_key from opinions where run_id = $1 and request_key is not null
),

final as (
    select judge, status, model_returned, count(*) as reply_count,
    from judgments
    where request_key in (select request_key from asked) and (status = 'scored' or run_id = $1)
    group by judge, status, model_returned
)

select * from final
