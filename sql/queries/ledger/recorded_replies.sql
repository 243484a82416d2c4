-- recorded_replies: one row per row of `asked`, in order, with its reply: the earliest usable one, paid for by any run,
-- and `useless`: the latest useless one that the run $run_id paid for.
with scored as (
    select
        request_key,
        arg_min(struct_pack(level_id, distribution, evidence, rationale), (asked_at, judgment_id)) as reply,
    from judgments
    where status = 'scored' and request_key in (select request_key from asked)
    group by request_key
),

useless as (
    select
        request_key,
        arg_max(struct_pack(status, reply, evidence, rationale), (asked_at, judgment_id)) as reply,
    from judgments
    where status <> 'scored' and run_id = $run_id and request_key in (select request_key from asked)
    group by request_key
),

final as (
    select
        asked.* exclude (is_scored, level_id, evidence, rationale),
        coalesce(asked.is_scored, scored.reply is not null) as is_scored,
        coalesce(asked.level_id, scored.reply.level_id) as level_id,
        scored.reply.distribution as distribution,
        coalesce(asked.evidence, if(asked.is_scored is null, scored.reply.evidence, null)) as evidence,
        coalesce(asked.rationale, if(asked.is_scored is null, scored.reply.rationale, null)) as rationale,
        useless.reply as useless,
    from asked
    left join scored on asked.request_key = scored.request_key
    left join useless on asked.request_key = useless.request_key
    order by case_id, model, checkpoint nulls first, sample_index, output_id, criterion_id, replicate
)

select * from final
