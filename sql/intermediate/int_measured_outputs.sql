-- int_measured_outputs: one row per scope (category or run), scope_id, output that is held to something in it. score is
-- null where it is not known, is_passed where that is not.
with categories as (select * from int_category_scores),

scores as (select * from output_scores),

groups as (select * from int_groups),

final as (
    select 'category' as scope, categories.category as scope_id, groups.model, groups.checkpoint,
        categories.score, categories.is_met as is_passed,
    from categories
    inner join groups on categories.group_number = groups.group_number
    union all
    select 'run' as scope, '' as scope_id, model, checkpoint, score, is_passed,
    from scores
)

select * from final
