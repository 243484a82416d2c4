-- wrong_verdicts: one row per run_id, output_id, criterion_id whose verdict or opinion has another level (found) than
-- the earliest judgment of its request (expected), in order. $run_id: of this run alone; null: of all. Of two runs that
-- judged at the same time each uses its own judgment. A verdict of several opinions need not have the level of any
-- single judgment, so each opinion is compared with the ledger.
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
    where method = 'judge' and status = 'scored' and run_id not in (select run_id from opinions)
    union all
    select run_id, output_id, criterion_id, level_id, request_key from opinions where status = 'scored'
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

final as (
    select
        compared.run_id,
        compared.output_id,
        compared.criterion_id,
        compared.level_id as found,
        earliest.level_id as expected,
        earliest.judgment_id,
        compared.request_key,
    from compared
    left join earliest on compared.request_key = earliest.request_key
    left join passed_on on compared.request_key = passed_on.request_key and compared.run_id = passed_on.run_id
    where
        ($run_id is null or compared.run_id = $run_id)
        and compared.level_id is distinct from earliest.level_id
        and not coalesce(list_contains(passed_on.level_ids, compared.level_id), false)
    order by compared.run_id, compared.output_id, compared.criterion_id
)

select * from final
