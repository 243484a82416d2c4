-- int_skip_points: one row per output_number, root of int_skip_steps: its points and its denominator over what has a
-- score. A group without a scored criterion of positive weight has no score: it is absent from the group around it.
-- materialized: table
with steps as (select * from int_skip_steps),

present as (
    select
        output_number,
        root,
        parent,
        node,
        any_value(weight) as weight,
    from steps
    where is_positive
    group by output_number, root, parent, node
),

totals as (
    select
        output_number,
        root,
        parent,
        exact_sum(weight) as positive_weight,
    from present
    group by output_number, root, parent
),

-- The node right below the root keeps its weight: the sum of these is the denominator. Below it, shares.
weighed as (
    select
        steps.output_number,
        steps.root,
        any_value(steps.score) as score,
        product(
            if(steps.parent = steps.root, steps.weight, steps.weight / totals.positive_weight) order by steps.parent
        ) as weight,
        bool_and(steps.parent = steps.root or totals.positive_weight is not null) as is_present,
        any_value(totals.positive_weight) filter (steps.parent = steps.root) as positive_weight,
    from steps
    left join totals
        on steps.output_number = totals.output_number
        and steps.root = totals.root
        and steps.parent = totals.parent
    group by steps.output_number, steps.root, steps.criterion_id
),

final as (
    select
        output_number,
        root,
        coalesce(exact_sum(if(is_present, weight * score, null)), 0.0) as points,
        coalesce(any_value(positive_weight), 0.0) as positive_weight,
    from weighed
    group by output_number, root
)

select * from final
