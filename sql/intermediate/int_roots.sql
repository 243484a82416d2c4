-- int_roots: one row per root of a tree of categories, '' for the whole. positive_weight is the sum of the positive
-- weights right below it: shares times this are weights that criteria of a row's own can stand beside.
-- materialized: table
with steps as (select * from stg_steps where parent = root),

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
