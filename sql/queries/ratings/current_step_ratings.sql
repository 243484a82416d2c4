-- current_step_ratings: one row per output_id, criterion_id, rater, step_index and error of the relation
-- asked_step_ratings: of a rater's marks of a step the latest, several if a file lists several errors of it. label and
-- score are null where the rater took an earlier mark back.
with final as (
    select *
    from asked_step_ratings
    where step_index is not null
    qualify rank() over (
        partition by output_id, criterion_id, rater, step_index, question_digest order by rated_at desc nulls last
    ) = 1
)

select * from final
