-- saved_costs: one row per criterion_id of the run $run_id, in order: its rows, the replies that another run of its
-- verdicts uses again, and what these cost, in US dollars, null where a price is unknown. The replies of a verdict are
-- those of its opinions or, without opinions, the first usable judgment in the ledger. Replies that are not in the
-- ledger were recorded, and cost nothing.
with used as (
    select criterion_id, request_key from opinions where run_id = $run_id and level_id is not null
    union all
    select criterion_id, request_key
    from verdicts
    where
        run_id = $run_id
        and request_key is not null
        and status = 'scored'
        and not exists (from opinions where run_id = $run_id)
),

stored as (
    select request_key, arg_min(struct_pack(cost_usd), (asked_at, judgment_id)) as judgment
    from judgments
    where status = 'scored' and request_key in (select request_key from used)
    group by request_key
),

replayed as (
    select
        used.criterion_id,
        count(*) as replayed_count,
        case
            when count(*) filter (stored.judgment is not null and stored.judgment.cost_usd is null) = 0
                then coalesce(sum(stored.judgment.cost_usd), 0.0)
        end as saved_usd,
    from used
    left join stored on used.request_key = stored.request_key
    group by used.criterion_id
),

taken as (select criterion_id, count(*) as row_count from verdicts where run_id = $run_id group by criterion_id),

final as (
    select
        taken.criterion_id,
        taken.row_count,
        coalesce(replayed.replayed_count, 0) as replayed_count,
        if(replayed.criterion_id is null, 0.0, replayed.saved_usd) as saved_usd,
    from taken
    left join replayed on taken.criterion_id = replayed.criterion_id
    order by taken.criterion_id
)

select * from final
