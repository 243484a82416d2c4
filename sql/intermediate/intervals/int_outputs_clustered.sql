-- int_outputs_clustered: one row per output_number of a model, checkpoint that has several outputs in one cluster (the
-- named cluster, else the case). Such outputs are not independent. Empty in most runs.
-- materialized: table
with outputs as (
    select *, cluster_of(cluster, case_id) as bond,
    from int_outputs_numbered
),

clusters as (
    select
        group_number,
        bond,
        row_number() over () as cluster_number,
        count(*) > 1 as is_shared,
    from outputs
    group by group_number, bond
),

groups as (
    select group_number,
    from clusters
    group by group_number
    having bool_or(is_shared)
),

final as (
    select
        outputs.output_number,
        outputs.output_id,
        outputs.model,
        outputs.checkpoint,
        clusters.cluster_number,
    from groups
    inner join clusters on groups.group_number = clusters.group_number
    inner join outputs
        on clusters.group_number = outputs.group_number
        and clusters.bond = outputs.bond
)

select * from final
