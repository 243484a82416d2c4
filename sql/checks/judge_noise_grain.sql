-- No model, checkpoint and criterion have two rows of judge_noise.
-- severity: error
-- empty without: judge_noise
with noise as (select * from judge_noise),

final as (
    select
        model,
        checkpoint,
        criterion_id,
        count(*) as row_count,
    from noise
    group by model, checkpoint, criterion_id
    having count(*) > 1
)

select * from final
