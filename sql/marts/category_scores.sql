-- category_scores: one row per run_id, model, checkpoint, category, nested categories included. Scores and rates are in
-- 0..1 over the n outputs with a score in the category; intervals are those of int_means_estimated; pass_rate is over
-- outputs with known gates and thresholds of the category, null where the category has none.
with means as (select * from int_means_estimated where scope = 'category'),

categories as (select * from int_categories_summed where output_number is null),

-- A category of penalties has no mean, but takes points.
penalties as (
    select
        groups.model,
        groups.checkpoint,
        categories.category,
        if(count(*) = count(criteria.mean), exact_sum(criteria.weight_share * criteria.mean), null) as contribution,
    from categories
    inner join int_category_criteria_weighted as members on categories.category_number = members.category_number
    inner join int_criteria_weighted as named on members.criterion_number = named.criterion_number
    inner join int_criteria_averaged as criteria on named.criterion_id = criteria.criterion_id
    inner join int_groups_counted as groups on criteria.group_number = groups.group_number
    where categories.weight < 0 and criteria.weight_share <> 0
    group by groups.model, groups.checkpoint, categories.category
),

rubric as (select * from int_rubric_summed),

final as (
    select
        rubric.run_id,
        means.model,
        means.checkpoint,
        means.scope_id as category,
        means.output_count,
        means.n,
        means.cluster_count,
        means.mean,
        means.sd,
        means.ci_low,
        means.ci_high,
        means.p05,
        means.p25,
        means.p50,
        means.p75,
        means.p95,
        means.pass_rate,
        means.pass_low,
        means.pass_high,
        means.n / means.output_count as coverage_rate,
        categories.weight,
        case
            when not rubric.has_own_weights then coalesce(penalties.contribution, categories.weight * means.mean)
        end as contribution,
        categories.parent,
    from means
    left join categories on means.scope_id = categories.category
    left join penalties
        on means.scope_id = penalties.category
        and means.model = penalties.model
        and means.checkpoint is not distinct from penalties.checkpoint
    cross join rubric
)

select * from final
