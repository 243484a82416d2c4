-- unreadable_replies: one row per judge that run $run_id paid and that gave replies with one of $statuses, or scored
-- ones that are no JSON as they stand: the number of its replies, of either, and the beginning of the first with one of
-- $statuses, with what it was found to be.
with judged as (
    select
        *,
        status in (select unnest($statuses)) as is_unreadable,
    from judgments
    where run_id = $run_id
),

final as (
    select
        judge,
        count(*) as reply_count,
        count(*) filter (is_unreadable) as unreadable_count,
        count(*) filter (status = 'scored' and not json_valid(reply)) as loose_count,
        arg_min(left(reply, 2000), (asked_at, judgment_id)) filter (is_unreadable) as first_reply,
        arg_min(status, (asked_at, judgment_id)) filter (is_unreadable) as first_status,
        arg_min_null(rationale, (asked_at, judgment_id)) filter (is_unreadable) as first_rationale,
    from judged
    group by judge
    having unreadable_count > 0 or loose_count > 0
    order by judge
)

select * from final
