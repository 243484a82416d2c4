-- answer_pairs: one row per output of own_outputs, in its order: the answer that it is compared with, if its
-- counterpart by answer_groups has exactly one in other_outputs to the same case_id and sample_index. other_count: how
-- many it has.
with final as (
    select
        own.output_id,
        if(count(others.output_id) = 1, any_value(others.output_id), null) as other_output_id,
        if(count(others.output_id) = 1, any_value(others.output), null) as other,
        count(others.output_id) as other_count,
    from own_outputs as own
    left join answer_groups as groups
        on own.model = groups.model and own.checkpoint is not distinct from groups.checkpoint
    left join other_outputs as others
        on groups.other_model = others.model
        and groups.other_checkpoint is not distinct from others.checkpoint
        and own.case_id = others.case_id
        and own.sample_index is not distinct from others.sample_index
    group by own.place, own.output_id
    order by own.place
)

select * from final
