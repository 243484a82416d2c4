-- No per-case criterion has the id of a criterion of the rubric.
-- severity: error
-- empty without: source_case_criteria
with own as (select * from stg_case_criteria),

criteria as (select * from stg_criteria),

final as (
    select
        own.output_id,
        own.criterion_id,
    from own
    semi join criteria on own.criterion_id = criteria.criterion_id
)

select * from final
