-- current_step_ratings: one row per output_id, criterion_id, rater, step_index and error of the table step_ratings: of
-- a rater's marks of a step the latest, several if a file lists several errors of it. label and score are null where
-- the rater took an earlier mark back.
with final as (
    select *
    from step_ratings
    where step_index is not null
    qualify rank() over (
        partition by output_id, criterion_id, rater, step_index order by rated_at desc nulls last
    ) = 1
)

select * from final
