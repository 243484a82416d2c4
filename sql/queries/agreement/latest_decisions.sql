-- latest_decisions: one row per criterion_id, output_id of agreed_decisions: the latest decision of an adjudicator.
-- score is 0..1, what the criterion gives the level now; null where the criterion does not apply.
with final as (
    select
        decisions.criterion_id,
        decisions.output_id,
        decisions.adjudicator,
        coalesce(levels.score, decisions.score) as score,
    from agreed_decisions as decisions
    left join agreed_levels as levels
        on decisions.criterion_id = levels.criterion_id
        and decisions.level_id = levels.level_id
    qualify row_number() over (
        partition by decisions.output_id, decisions.criterion_id
        order by decisions.decided_at desc, decisions.line desc
    ) = 1
)

select * from final
