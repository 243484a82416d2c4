-- A verdict has a score where its status is scored, and none where it is unscored.
-- severity: error
with rows as (select * from verdicts),

final as (
    select
        output_id,
        criterion_id,
        status,
        score,
    from rows
    where status <> if(score is null, 'unscored', 'scored')
)

select * from final
