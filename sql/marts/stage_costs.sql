-- stage_costs: one row per run_id, stage, criterion_id (null where the stage has none, `(own)` for all per-case
-- criteria). wall_s and cpu_s are summed over tasks, in seconds; money is in USD, null where a price is unknown;
-- request_count excludes recorded replies. Tokens are the counts reported by the endpoint.
with timings as (select * from stg_timings),

judgments as (select * from stg_judgments),

criteria as (select * from stg_criteria),

run as (select * from stg_run),

-- A union of both kinds of rows, because a null criterion groups but does not join, and either side may be absent.
work as (
    select
        stage, criterion_id, wall_s, cpu_s, row_count, replayed_count, saved_usd,
        0 as request_count, 0 as prompt_tokens, 0 as cached_tokens, 0 as completion_tokens, 0.0 as cost_usd,
    from timings
    union all by name
    select
        'score' as stage,
        -- As in timings: all per-case criteria are one piece of work, (feedback) is another.
        case
            when judgments.criterion_id = '(feedback)' or criteria.criterion_id is not null then judgments.criterion_id
            else '(own)'
        end as criterion_id,
        0.0 as wall_s, 0.0 as cpu_s, 0 as row_count, 0 as replayed_count, 0.0 as saved_usd,
        judgments.attempts as request_count,
        judgments.prompt_tokens, judgments.cached_tokens, judgments.completion_tokens, judgments.cost_usd,
    from judgments
    left join criteria on judgments.criterion_id = criteria.criterion_id
),

final as (
    select
        run.run_id,
        work.stage,
        work.criterion_id,
        sum(work.wall_s) as wall_s,
        sum(work.cpu_s) as cpu_s,
        sum(work.row_count)::bigint as row_count,
        sum(work.request_count)::bigint as request_count,
        sum(work.replayed_count)::bigint as replayed_count,
        coalesce(sum(work.prompt_tokens), 0)::bigint as prompt_tokens,
        coalesce(sum(work.cached_tokens), 0)::bigint as cached_tokens,
        coalesce(sum(work.completion_tokens), 0)::bigint as completion_tokens,
        case when count(*) = count(work.cost_usd) then exact_sum(work.cost_usd) end as cost_usd,
        case when count(*) = count(work.saved_usd) then exact_sum(work.saved_usd) end as saved_usd,
    from work
    cross join run
    group by run.run_id, work.stage, work.criterion_id
)

select * from final
