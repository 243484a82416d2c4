-- wanted_questions: one row per criterion of the run $run_id, `(own)` for all per-case criteria: how many questions it
-- wanted a judge to answer. Two outputs with one text share a question. wanted_count: all; open_count: without a usable
-- reply, so that the next run over the same outputs asks them again; paid_count: paid for by the run.
with own as (select distinct criterion_id from case_criteria where run_id = $run_id),

rested_on as (
    select criterion_id, request_key, status = 'unscored' as is_open, false as is_paid
    from verdicts where run_id = $run_id and request_key is not null
    union all
    select criterion_id, request_key, status = 'unscored' as is_open, false as is_paid
    from opinions where run_id = $run_id and request_key is not null
    union all
    select criterion_id, request_key, null as is_open, true as is_paid
    from judgments where run_id = $run_id and (attempts > 0 or prompt_bytes is not null)
),

final as (
    select
        if(own.criterion_id is null, asked.criterion_id, '(own)') as criterion_id,
        count(distinct asked.request_key) filter (not asked.is_paid) as wanted_count,
        count(distinct asked.request_key) filter (asked.is_open) as open_count,
        count(distinct asked.request_key) filter (asked.is_paid) as paid_count,
    from rested_on as asked
    left join own on asked.criterion_id = own.criterion_id
    group by all
)

select * from final
