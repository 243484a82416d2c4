-- A scored opinion has a score in 0..1, an unscored one neither a score nor a level.
-- severity: error
-- empty without: source_opinions
with opinions as (select * from stg_opinions),

final as (
    select
        output_id,
        criterion_id,
        judge,
        status,
        level_id,
        score,
    from opinions
    where not (
        (status = 'scored' and coalesce(score between 0 and 1, false))
        or (status = 'unscored' and level_id is null and score is null)
    )
)

select * from final
