-- Every criterion has a scored verdict in every model and checkpoint.
-- severity: warning
with scores as (select * from criterion_scores),

final as (
    select
        model,
        checkpoint,
        criterion_id,
    from scores
    where n = 0
)

select * from final
