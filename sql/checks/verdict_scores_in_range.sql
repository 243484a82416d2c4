-- Every verdict's score is in 0..1.
-- severity: error
with verdicts as (select * from stg_verdicts),

final as (
    select
        output_id,
        criterion_id,
        score,
    from verdicts
    where not score between 0 and 1
)

select * from final
