-- Every output of the run is counted once in output_scores and in run_scores.
-- severity: error
with outputs as (select * from stg_outputs),

scores as (select * from output_scores),

runs as (select * from run_scores),

counts as (
    select
        (select count(*) from outputs) as output_count,
        (select count(*) from scores) as scores_count,
        (select coalesce(sum(output_count), 0) from runs) as run_scores_count,
),

final as (
    select *
    from counts
    where output_count <> scores_count or output_count <> run_scores_count
)

select * from final
