-- stg_steps: one row per root, criterion_id, node: a node on the path from the root of a category tree ('' for the
-- whole) down to the criterion. weight is the node's weight among its siblings under parent. Empty without a tree.
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
