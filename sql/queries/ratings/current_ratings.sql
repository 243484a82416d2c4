-- current_ratings: one row per output_id, criterion_id, rater of the relation asked_ratings, and question_digest where
-- it has all ratings of the lake: the latest rating. score is 0..1, null where the rater took it back. A decision of an
-- adjudicator is no rating.
with final as (
    select *
    from asked_ratings
    where source is distinct from 'adjudication'
    qualify row_number() over (
        partition by output_id, criterion_id, rater, question_digest
        order by rated_at desc nulls last, line desc
    ) = 1
)

select * from final
