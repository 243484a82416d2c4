-- int_scores_unioned: one row per scope (category or run), scope_id, output_number with a criterion in the scope. score
-- and is_passed are null where missing scores leave them open.
with categories as (select * from int_categories_scored),

outputs as (select * from int_outputs_scored),

final as (
    select 'category' as scope, category as scope_id, output_number, group_number, score, is_met as is_passed,
    from categories
    union all
    select 'run' as scope, '' as scope_id, output_number, group_number, score, is_passed,
    from outputs
)

select * from final
