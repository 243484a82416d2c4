-- replicate_verdicts: one row per output_id, criterion_id of the outputs that count, as run $run_id: the score (0..1)
-- of one replicate, in `judged`; a verdict without a reply is that of the run.
with final as (
    select
        $run_id as run_id,
        verdicts.output_id,
        verdicts.criterion_id,
        case
            when judged.output_id is null then verdicts.status
            when judged.score is null then 'unscored'
            else 'scored'
        end as status,
        if(judged.output_id is null, verdicts.score, judged.score) as score,
        verdicts.reason,
    from run_verdicts as verdicts
    left join judged on verdicts.output_id = judged.output_id and verdicts.criterion_id = judged.criterion_id
    where verdicts.output_id in (select output_id from source_outputs)
)

select * from final
