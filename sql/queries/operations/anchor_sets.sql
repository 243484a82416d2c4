-- anchor_sets: one row per anchor_set, newest first: its size, origin, and the last night that a judge was watched.
with last_nights as (
    select anchor_set, max(night) as last_night, max_by(state, (night, state = 'drifted')) as state
    from judge_drift
    group by anchor_set
),

final as (
    select
        anchors.anchor_set,
        count(distinct anchors.output_id) as output_count,
        count(distinct anchors.criterion_id) as criterion_count,
        count(*) as anchor_count,
        count(anchors.people_score) as rated_count,
        any_value(anchors.rubric_id) as rubric_id,
        any_value(anchors.rubric_version) as rubric_version,
        any_value(anchors.run_id) as run_id,
        any_value(anchors.judge) as judge,
        any_value(anchors.created_at) as created_at,
        any_value(last_nights.last_night) as last_night,
        any_value(last_nights.state) as state,
    from anchors
    left join last_nights on anchors.anchor_set = last_nights.anchor_set
    group by anchors.anchor_set
    order by created_at desc, anchors.anchor_set
)

select * from final
