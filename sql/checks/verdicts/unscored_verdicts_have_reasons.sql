-- Every unscored verdict has a reason.
-- severity: error
with rows as (select * from verdicts),

final as (
    select
        output_id,
        criterion_id,
    from rows
    where score is null and coalesce(reason, '') = ''
)

select * from final
