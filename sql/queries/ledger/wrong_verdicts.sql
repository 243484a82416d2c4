-- wrong_verdicts: one row per run_id, output_id, criterion_id whose verdict or opinion has another level (found) than
-- the earliest judgment of its request (expected), in order. $run_id: of this run alone; null: of all. Of two runs that
-- judged at the same time each uses its own judgment. A verdict of several opinions need not have the level of any
-- single judgment, so each opinion is compared with the ledger. A preference comes from two judgments, of both orders:
-- `preference_keys` has their keys; their level is expected if both have it, else a tie.
with recursive scored as (
    select request_key, run_id, level_id, asked_at, judgment_id from judgments where status = 'scored'
),

earliest as (
    select
        request_key,
        arg_min(level_id, (asked_at, judgment_id)) as level_id,
        arg_min(judgment_id, (asked_at, judgment_id)) as judgment_id,
    from scored
    group by request_key
),

of_the_run as (
    select request_key, run_id, arg_min(level_id, (asked_at, judgment_id)) as level_id
    from scored
    group by request_key, run_id
),

compared as (
    select run_id, output_id, criterion_id, level_id, request_key
    from verdicts
    where
        status = 'scored'
        and (method = 'judge' or (method = 'preference' and request_key is not null))
        and run_id not in (select run_id from opinions)
    union all
    select run_id, output_id, criterion_id, level_id, request_key from opinions where status = 'scored'
),

-- Without a second key, a preference can't be compared: its judge or an answer is unknown, or has images.
keyed as (
    select compared.*, keys.second_key
    from compared
    left join preference_keys as keys on compared.run_id = keys.run_id and compared.request_key = keys.first_key
    anti join judged_preferences as preferences
        on keys.second_key is null
        and compared.run_id = preferences.run_id
        and compared.output_id = preferences.output_id
        and compared.criterion_id = preferences.criterion_id
    where $run_id is null or compared.run_id = $run_id
),

-- The run itself and, of a rescored run, all runs that its verdicts come from.
origins as (
    select run_id, run_id as judged_run_id from runs
    union
    select origins.run_id, runs.settings::json ->> '$.rescored_from' as judged_run_id
    from origins
    inner join runs on origins.judged_run_id = runs.run_id
    where runs.settings::json ->> '$.rescored_from' is not null
),

passed_on as (
    select origins.run_id, of_the_run.request_key, list(of_the_run.level_id) as level_ids
    from origins
    inner join of_the_run on origins.judged_run_id = of_the_run.run_id
    group by origins.run_id, of_the_run.request_key
),

-- Levels that a request may have given to a run, the earliest first.
answered as (
    select
        keyed.*,
        first.judgment_id,
        list_prepend(first.level_id, coalesce(own_first.level_ids, [])) as first_levels,
        list_prepend(second.level_id, coalesce(own_second.level_ids, [])) as second_levels,
    from keyed
    left join earliest as first on keyed.request_key = first.request_key
    left join passed_on as own_first on keyed.request_key = own_first.request_key and keyed.run_id = own_first.run_id
    left join earliest as second on keyed.second_key = second.request_key
    left join passed_on as own_second on keyed.second_key = own_second.request_key and keyed.run_id = own_second.run_id
),

possible as (
    select
        *,
        case
            when second_key is null then first_levels
            else flatten(list_transform(first_levels, lambda one: list_transform(second_levels, lambda other:
                case when one = other then one when one is not null and other is not null then 'same' end
            )))
        end as levels,
    from answered
),

final as (
    select
        run_id,
        output_id,
        criterion_id,
        level_id as found,
        levels[1] as expected,
        judgment_id,
        request_key,
    from possible
    where not coalesce(list_contains(levels, level_id), false)
    order by run_id, output_id, criterion_id
)

select * from final
