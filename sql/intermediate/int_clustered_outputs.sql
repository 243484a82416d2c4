-- int_clustered_outputs: one row per output_number of a model, checkpoint that has several outputs of one cluster (the
-- one that they name, or else the case): these say less than as many outputs of different ones. Empty in most runs.
with outputs as (
    select *, cluster_of(cluster, case_id) as bond,
    from int_outputs
),

clusters as (
    select
        model,
        checkpoint,
        bond,
        row_number() over () as cluster_number,
        count(*) > 1 as is_shared,
    from outputs
    group by model, checkpoint, bond
),

groups as (
    select
        model,
        checkpoint,
    from clusters
    group by model, checkpoint
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
    inner join clusters
        on groups.model = clusters.model
        and groups.checkpoint is not distinct from clusters.checkpoint
    inner join outputs
        on clusters.model = outputs.model
        and clusters.checkpoint is not distinct from outputs.checkpoint
        and clusters.bond = outputs.bond
)

select * from final
