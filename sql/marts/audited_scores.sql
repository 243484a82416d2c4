-- audited_scores: one row per run_id, model, checkpoint, criterion_id of a run by a cascade with an audit; criterion_id
-- is null for the overall score. Means are in 0..1. Python corrects them by the audit (PPI++).
-- empty without: source_audited
with audited as (select * from source_audited),

run as (select * from stg_run),

final as (
    select
        run.run_id,
        audited.model,
        audited.checkpoint,
        audited.criterion_id,
        audited.n,
        audited.audited_count,
        audited.mean,
        audited.corrected_mean,
        audited.ci_low,
        audited.ci_high,
        audited.reason,
    from audited
    cross join run
)

select * from final
