-- audited_verdicts: one row per output_id, criterion_id of a run by a cascade. score: of the verdict, in 0..1.
-- is_drawn: the output is in the audit's sample, so that the verdict is the second judge's. by_rule: the score without
-- the audit: that of the first judge where the audit alone asked the second. shared: the output's cluster or case.
with asked as (
    select
        output_id,
        criterion_id,
        max(asked_for) as asked_for,
        avg(score) filter (asked_for is null and not is_swapped) as first_score,
    from source_opinions
    group by output_id, criterion_id
),

final as (
    select
        outputs.model,
        outputs.checkpoint,
        verdicts.criterion_id,
        coalesce('cluster ' || outputs.cluster, 'case ' || outputs.case_id) as shared,
        verdicts.score,
        coalesce(asked.asked_for in ('audit', 'both'), false) as is_drawn,
        if(asked.asked_for = 'audit', asked.first_score, verdicts.score) as by_rule,
    from source_verdicts as verdicts
    inner join source_outputs as outputs on verdicts.output_id = outputs.output_id
    left join asked on verdicts.output_id = asked.output_id and verdicts.criterion_id = asked.criterion_id
    order by outputs.model, outputs.checkpoint, verdicts.criterion_id, verdicts.output_id
)

select * from final
