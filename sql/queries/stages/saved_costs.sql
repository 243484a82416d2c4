-- saved_costs: one row per criterion_id of the run $run_id, in order: its rows, the replies that another run of its
-- verdicts uses again, and what these cost, in US dollars, null where a price is unknown. A reply that several verdicts
-- use costs once, at the first criterion. The replies of a verdict are those of its opinions or, without opinions, the
-- first usable judgment in the ledger. Replies that are not in the ledger were recorded, and cost nothing. Of claims,
-- steps and pairs, whose replies are not all named, verdicts are counted, and the criterion's costs are taken whole.
with listed as (
    select criterion_id from claims where run_id = $run_id
    union
    select criterion_id from step_verdicts where run_id = $run_id
    union
    select criterion_id from judged_preferences where run_id = $run_id
),

used as (
    select criterion_id, request_key, row_number() over (partition by request_key order by criterion_id) = 1 as is_first
    from (
        select criterion_id, request_key from opinions where run_id = $run_id and level_id is not null
        union all
        select criterion_id, request_key
        from verdicts
        where
            run_id = $run_id
            and request_key is not null
            and status = 'scored'
            and not exists (from opinions where run_id = $run_id)
    )
    where criterion_id not in (from listed)
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
                then coalesce(sum(stored.judgment.cost_usd) filter (used.is_first), 0.0)
        end as saved_usd,
    from used
    left join stored on used.request_key = stored.request_key
    group by used.criterion_id
    union all by name
    select verdicts.criterion_id, count(*) as replayed_count, any_value(costs.cost_usd + costs.saved_usd) as saved_usd
    from verdicts
    inner join stage_costs as costs
        on verdicts.run_id = costs.run_id and verdicts.criterion_id = costs.criterion_id and costs.stage = 'score'
    where verdicts.run_id = $run_id and verdicts.status = 'scored' and verdicts.criterion_id in (from listed)
    group by verdicts.criterion_id
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
