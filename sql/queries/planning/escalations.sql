-- escalations: one row: how many questions a cascade with the settings $identity, named $judge, has asked its first
-- judge $first, and the share (0..1) that it passed on to $then.
with asked as (
    select bool_or(opinions.judge = $then) as is_escalated
    from opinions
    inner join runs on opinions.run_id = runs.run_id
    where runs.judge = $judge and json_extract(runs.settings, '$.judge') = json($identity) and not opinions.is_swapped
    group by opinions.run_id, opinions.output_id, opinions.criterion_id
    having bool_or(opinions.judge = $first)
),

final as (
    select count(*) as question_count, avg(is_escalated::integer) as escalation_rate
    from asked
)

select * from final
