-- passed_on: one row per run_id, request_key that the run itself paid for, or, of a rescored run, a run that its
-- verdicts come from: level_ids, the levels of the scored judgments. Of two runs that judged at the same time each uses
-- its own.
with recursive of_the_run as (
    select request_key, run_id, arg_min(level_id, (asked_at, judgment_id)) as level_id
    from judgments
    where status = 'scored'
    group by request_key, run_id
),

origins as (
    select run_id, run_id as judged_run_id from runs
    union
    select origins.run_id, runs.settings::json ->> '$.rescored_from' as judged_run_id
    from origins
    inner join runs on origins.judged_run_id = runs.run_id
    where runs.settings::json ->> '$.rescored_from' is not null
),

final as (
    select origins.run_id, of_the_run.request_key, list(of_the_run.level_id) as level_ids
    from origins
    inner join of_the_run on origins.judged_run_id = of_the_run.run_id
    group by origins.run_id, of_the_run.request_key
)

select * from final
