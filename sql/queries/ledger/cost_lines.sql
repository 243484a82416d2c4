-- cost_lines: one row per judgment that was paid for, and one per stage of a run that took replies from the ledger.
-- Costs are in US dollars. Recorded replies are in neither: no request was sent, and nothing was saved. $run_id: this
-- run alone; $since: from this time on; null: all.
with own as (select distinct run_id, criterion_id from case_criteria),

billed as (
    select
        case
            when judgments.criterion_id = '(feedback)' then 'feedback'
            -- The sentinel's replies belong to no run, nor do those of drafts and of better guidance.
            when starts_with(judgments.run_id, 'anchors-') and runs.run_id is null then 'anchors'
            when starts_with(judgments.run_id, 'learning-') and runs.run_id is null then 'learning'
            else 'score'
        end as stage,
        if(own.criterion_id is null, judgments.criterion_id, '(own)') as criterion,
        judgments.judge,
        make_timestamp(epoch_us(judgments.asked_at))::date::varchar as day,
        1 as judgment_count,
        judgments.attempts as request_count,
        judgments.prompt_tokens,
        judgments.cached_tokens,
        judgments.completion_tokens,
        judgments.written_tokens,
        judgments.reasoning_tokens,
        judgments.cost_usd as billed_usd,
        -- Earlier versions of gradebook wrote 0 if the endpoint reported no counts.
        coalesce(judgments.prompt_tokens + judgments.completion_tokens, 0) = 0 and judgments.cost_usd is null
            as is_uncounted,
    from judgments
    left join own on judgments.run_id = own.run_id and judgments.criterion_id = own.criterion_id
    left join runs on judgments.run_id = runs.run_id
    where
        (judgments.attempts > 0 or judgments.prompt_bytes is not null)  -- a recorded reply was never sent
        and ($run_id is null or judgments.run_id = $run_id)
        and ($since is null or judgments.asked_at >= $since)
),

replayed as (
    select
        if(stage_costs.criterion_id = '(feedback)', 'feedback', stage_costs.stage) as stage,
        stage_costs.criterion_id as criterion,
        runs.judge,
        make_timestamp(epoch_us(runs.finished_at))::date::varchar as day,
        stage_costs.replayed_count,
        stage_costs.saved_usd,
    from stage_costs
    inner join runs on stage_costs.run_id = runs.run_id
    where
        stage_costs.replayed_count > 0
        and not starts_with(runs.judge, 'replay:')
        and ($run_id is null or runs.run_id = $run_id)
        and ($since is null or runs.finished_at >= $since)
),

final as (
    from billed
    union all by name
    from replayed
)

select * from final
