-- int_trees_summed: one row per root of a category tree, '' for the whole. positive_weight is the sum of the positive
-- weights directly below the root: a share times positive_weight is a weight on the scale of per-case criteria.
-- empty without: source_steps
-- materialized: table
with steps as (select * from source_steps where parent = root),

nodes as (
    select
        root,
        node,
        any_value(weight) as weight,
    from steps
    group by root, node
),

final as (
    select
        root,
        exact_sum(greatest(weight, 0.0)) as positive_weight,
    from nodes
    group by root
)

select * from final
