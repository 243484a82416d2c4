-- int_outputs_clustered: one row per output_number of a model, checkpoint that has several outputs in one cluster (the
-- named cluster, else the case), or of a sample drawn by stratum. Outputs of a cluster are not independent; a cluster
-- within two strata counts as two. Empty in most runs.
-- materialized: table
with outputs as (
    select
        outputs.*,
        cluster_of(outputs.cluster, outputs.case_id) as bond,
        weights.stratum_number,
        weights.weight,
        weights.case_weight,
        weights.dataset_case_count,
    from int_outputs_numbered as outputs
    left join int_outputs_weighted as weights on outputs.output_number = weights.output_number
),

clusters as (
    select
        group_number,
        bond,
        stratum_number,
        row_number() over () as cluster_number,
        count(*) > 1 as is_shared,
    from outputs
    group by group_number, bond, stratum_number
),

groups as (
    select group_number,
    from clusters
    group by group_number
    having bool_or(is_shared or stratum_number is not null)
),

final as (
    select
        outputs.output_number,
        outputs.output_id,
        outputs.model,
        outputs.checkpoint,
        clusters.cluster_number,
        outputs.stratum_number,
        outputs.weight,
        outputs.case_weight,
        outputs.dataset_case_count,
    from groups
    inner join clusters on groups.group_number = clusters.group_number
    inner join outputs
        on clusters.group_number = outputs.group_number
        and clusters.bond = outputs.bond
        and clusters.stratum_number is not distinct from outputs.stratum_number
)

select * from final
