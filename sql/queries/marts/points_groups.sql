-- points_groups: one row per scope (category or run), scope_id, model, checkpoint with 2 to $most_count scored outputs.
with final as (
    select
        scores.scope,
        scores.scope_id,
        groups.model,
        groups.checkpoint,
    from int_scores_unioned as scores
    inner join int_groups_counted as groups on scores.group_number = groups.group_number
    where scores.score is not null
    group by scores.scope, scores.scope_id, groups.model, groups.checkpoint
    having count(*) between 2 and $most_count
    order by scores.scope, scores.scope_id, groups.model, groups.checkpoint
)

select * from final
