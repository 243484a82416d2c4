-- current_ratings: one row per output_id, criterion_id, rater of the table ratings: the latest rating. score is 0..1,
-- null where the rater took it back. A decision of an adjudicator is no rating.
with final as (
    select *
    from ratings
    where source is distinct from 'adjudication'
    qualify row_number() over (
        partition by output_id, criterion_id, rater
        order by rated_at desc nulls last, rowid desc
    ) = 1
)

select * from final
