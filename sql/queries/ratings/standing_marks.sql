-- standing_marks: one row per row of `marks` that stands, in their order: of a rater's ratings of one output and
-- criterion all with a score or, if the latest has no score (it takes the rating back), the latest alone.
with placed as (select *, row_number() over () as place from marks),

ranked as (
    select
        *,
        row_number() over latest_first as rank,
        first_value(score is null) over latest_first as is_taken_back,
    from placed
    window latest_first as (
        partition by output_id, criterion_id, rater order by rated_at desc nulls last, line desc, place desc
    )
),

final as (
    select * exclude (place, rank, is_taken_back)
    from ranked
    where if(is_taken_back, rank = 1, score is not null)
    order by place
)

select * from final
