-- cluster_of(cluster, case_id): the cluster of an output as a unique text: the named cluster, else the case.
create or replace temp macro cluster_of(cluster, case_id) as (
    coalesce('cluster ' || cluster, 'case ' || case_id)
)
