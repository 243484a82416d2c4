-- Every unscored verdict has a reason.
-- severity: warning
with verdicts as (select * from stg_verdicts),

final as (
    select
        output_id,
        criterion_id,
    from verdicts
    where score is null and coalesce(reason, '') = ''
)

select * from final
