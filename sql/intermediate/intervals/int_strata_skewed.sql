-- int_strata_skewed: one row per measure, scope, scope_id, model, checkpoint whose cases have unlike numbers of outputs
-- (int_cases_weighted, without strata): the skewness of the clusters' weighted residuals, null where all are equal.
with clusters as (select * from int_clusters_summed where stratum_number = 0),

means as (
    select
        measure, scope, scope_id, model, checkpoint,
        exact_sum(weighted_total) / exact_sum(weight) as mean,
    from clusters
    group by measure, scope, scope_id, model, checkpoint
),

final as (
    select
        means.measure, means.scope, means.scope_id, means.model, means.checkpoint,
        exact_sum((clusters.weighted_total - clusters.weight * means.mean) ** 3) * sqrt(count(*))
            / nullif(exact_sum((clusters.weighted_total - clusters.weight * means.mean) ** 2), 0.0) ** 1.5 as skewness,
    from clusters
    inner join means
        on clusters.measure = means.measure and clusters.scope = means.scope and clusters.scope_id = means.scope_id
        and clusters.model = means.model and clusters.checkpoint is not distinct from means.checkpoint
    group by means.measure, means.scope, means.scope_id, means.model, means.checkpoint
)

select * from final
