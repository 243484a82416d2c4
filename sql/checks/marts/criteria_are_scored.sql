-- Every criterion that is not optional has a scored verdict in every model and checkpoint that it applies to.
-- severity: warning
with scores as (select * from criterion_scores),

criteria as (select * from stg_criteria),

final as (
    select
        model,
        checkpoint,
        criterion_id,
    from scores
    where n = 0 and output_count > 0 and criterion_id not in (select criterion_id from criteria where not is_required)
)

select * from final
