-- wanted_questions: the questions that a run wanted answered by a judge: one row a criterion, `(own)` for all that
-- rows brought along. Two outputs with one text share a question. wanted_count: all; open_count: without a usable
-- reply, so that the next run over the same outputs asks them again; paid_count: those that the run paid for. $1: the
-- run.
with own as (select distinct criterion_id from case_criteria where run_id = $1),

rested_on as (
    select criterion_id, request_key, status = 'unscored' as is_open, false as is_paid
    from verdicts where run_id = $1 and request_key is not null
    union all
    select criterion_id, request_key, status = 'unscored' as is_open, false as is_paid
    from opinions where run_id = $1 and request_key is not null
    union all
    select criterion_id, request_key, null as is_open, true as is_paid
    from judgments where run_id = $1 and (attempts > 0 or prompt_bytes is not null)
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
