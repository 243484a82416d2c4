-- group_points: one row per scored output of $scope, $scope_id, $model, $checkpoint, by cluster and score.
-- cluster_number identifies the cluster within the group, from 1.
with final as (
    select
        dense_rank() over (order by cluster_of(outputs.cluster, outputs.case_id)) as cluster_number,
        scores.score,
    from int_scores_unioned as scores
    inner join int_groups_counted as groups on scores.group_number = groups.group_number
    inner join int_outputs_numbered as outputs on scores.output_number = outputs.output_number
    where
        scores.score is not null
        and scores.scope = $scope
        and scores.scope_id = $scope_id
        and groups.model = $model
        and groups.checkpoint is not distinct from $checkpoint
    order by cluster_number, scores.score
)

select * from final
