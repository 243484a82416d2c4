-- score_distribution has one row per run_id, model, checkpoint, score.
-- severity: error
with mart as (select * from score_distribution),

final as (
    select
        run_id,
        model,
        checkpoint,
        score,
        count(*) as row_count,
    from mart
    group by run_id, model, checkpoint, score
    having count(*) > 1
)

select * from final
