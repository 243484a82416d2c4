-- stg_steps: one row per root, criterion_id, node: a step of the criterion's way down a tree of categories, from the
-- root ('' for the whole) to itself. weight is the node's own, among what stands beside it under the parent. No tree,
-- no rows.
with steps as (select * from source_steps),

final as (
    select
        root,
        criterion_id,
        parent,
        node,
        weight,
    from steps
)

select * from final
