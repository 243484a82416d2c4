-- int_trees_reweighted: one row per output_number, root of a category tree, for outputs with a missing score where the
-- rubric skips missing scores: points and positive weight over the scored criteria. A category without a scored
-- criterion of positive weight has no score, and is absent from its parent. Per-case criteria are at the top of the
-- tree.
-- empty without: source_steps
-- materialized: table
with verdicts as (
    select verdicts.*,
    from int_irregular_outputs_summed as outputs
    cross join int_rubric_summed as rubric
    inner join int_verdicts_weighted as verdicts on outputs.output_number = verdicts.output_number
    where rubric.missing = 'skip' and rubric.has_tree and verdicts.is_weighted
        and outputs.scored_totals.weighted_count < outputs.applied_totals.weighted_count + outputs.excused_count
),

steps as (
    select
        verdicts.output_number, verdicts.criterion_number, verdicts.score, verdicts.weight > 0 as is_positive,
        steps.root, steps.parent, steps.node, steps.weight,
    from verdicts
    inner join source_steps as steps on verdicts.criterion_id = steps.criterion_id
    union all
    select
        output_number, criterion_number, score, weight > 0 as is_positive,
        '' as root, '' as parent, 'own:' || criterion_id as node, weight,
    from verdicts
    where is_per_case
),

totals as (
    select
        output_number, root, parent,
        exact_sum(weight) as positive_weight,
    from (select distinct output_number, root, parent, node, weight from steps where is_positive)
    group by output_number, root, parent
),

-- The nodes directly below the root have their weights, whose sum is the denominator. Deeper nodes have shares.
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
    group by steps.output_number, steps.root, steps.criterion_number
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
