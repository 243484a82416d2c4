-- questions_of_published: one row per output_id, criterion_id, replicate that the judge of the published run $run_id
-- was asked about. is_scored: from the verdict; null for an opinion, whose status is in the ledger.
with judged as (
    select *
    from verdicts
    where
        run_id = $run_id
        and method = 'judge'
        and request_key is not null
        and not exists (from opinions where opinions.run_id = $run_id)
),

final as (
    select
        outputs.case_id,
        outputs.model,
        outputs.checkpoint,
        outputs.sample_index,
        judged.output_id,
        judged.criterion_id,
        judged.request_key,
        0 as replicate,
        judged.status = 'scored' as is_scored,
        judged.level_id,
        judged.reason,
        judged.evidence,
        judged.rationale,
    from judged
    inner join outputs on judged.output_id = outputs.output_id
    union all by name
    select
        outputs.case_id,
        outputs.model,
        outputs.checkpoint,
        outputs.sample_index,
        opinions.output_id,
        opinions.criterion_id,
        opinions.request_key,
        opinions.replicate,
        null::boolean as is_scored,
        opinions.reason,
    from opinions
    inner join outputs on opinions.output_id = outputs.output_id
    where opinions.run_id = $run_id and not opinions.is_swapped
)

select * from final
