-- cluster_of(cluster, case_id): what an output shares with others, as a text: the cluster that it names, else its case.
create or replace macro cluster_of(cluster, case_id) as (
    coalesce('cluster ' || cluster, 'case ' || case_id)
)
