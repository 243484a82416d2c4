-- question_costs: one row per criterion of the run $run_id, `(own)` for all per-case criteria: what the judge's
-- questions cost, in US dollars. Only questions whose every reply has a price; the cost of a question is that of all
-- its replies, because a repeated request is paid again.
with own as (select distinct criterion_id from case_criteria where run_id = $run_id),

judged as (
    select request_key, criterion_id, cost_usd
    from judgments
    where run_id = $run_id and (attempts > 0 or prompt_bytes is not null)
),

questions as (
    select
        if(own.criterion_id is null, judged.criterion_id, '(own)') as criterion_id,
        judged.request_key,
        case when count(*) = count(judged.cost_usd) then sum(judged.cost_usd) end as cost_usd,
    from judged
    left join own on judged.criterion_id = own.criterion_id
    group by all
),

final as (
    select criterion_id, count(cost_usd) as question_count, coalesce(stddev_samp(cost_usd), 0.0) as sd_usd
    from questions
    group by criterion_id
)

select * from final
