-- criterion_ladders: one row per rubric_id, rubric_version, criterion_id. weight is on the scale of per-case criteria;
-- levels are ordered from worst to best.
with ladders as (
    select
        rubric_id,
        rubric_version,
        criterion_id,
        list(struct_pack(id := level_id, score, label, description) order by position) as levels,
    from levels
    group by rubric_id, rubric_version, criterion_id
),

-- The body leaves defaults out: a category without a weight weighs 1, one without a parent is at the top.
trees as (
    select
        rubric_id,
        rubric_version,
        try_cast(try_cast(body as json) -> 'categories' as struct(parent varchar, weight double)[]) as categories,
        list_filter(categories, lambda category: category.parent is null) as top_categories,
        list_sum(list_transform(top_categories, lambda category: coalesce(category.weight, 1.0))) as category_weight,
    from rubrics
),

-- Criteria without a category are at the top, next to the categories. A gate has weight 0.
tops as (
    select
        trees.rubric_id,
        trees.rubric_version,
        any_value(trees.category_weight) + coalesce(sum(greatest(criteria.weight, 0.0)), 0.0) as weight,
    from trees
    left join criteria
        on trees.rubric_id = criteria.rubric_id
        and trees.rubric_version = criteria.rubric_version
        and criteria.category is null
    group by trees.rubric_id, trees.rubric_version
),

final as (
    select
        criteria.rubric_id,
        criteria.rubric_version,
        criteria.criterion_id,
        criteria.position,
        criteria.is_gate,
        criteria.threshold,
        coalesce(criteria.effective_weight * tops.weight, criteria.effective_weight, criteria.weight) as weight,
        ladders.levels,
    from criteria
    left join tops
        on criteria.rubric_id = tops.rubric_id
        and criteria.rubric_version = tops.rubric_version
    left join ladders
        on criteria.rubric_id = ladders.rubric_id
        and criteria.rubric_version = ladders.rubric_version
        and criteria.criterion_id = ladders.criterion_id
)

select * from final
