-- levels: one row per criterion_id, level_id of the rubric version of the run $run_id, in the rubric's order. score is
-- 0..1.
with final as (
    select levels.criterion_id, levels.level_id, levels.position, levels.score, levels.label, levels.description
    from levels
    inner join runs on levels.rubric_id = runs.rubric_id and levels.rubric_version = runs.rubric_version
    where runs.run_id = $run_id
    order by levels.criterion_id, levels.position
)

select * from final
