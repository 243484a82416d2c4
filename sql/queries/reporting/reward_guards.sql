-- reward_guards: one row per model, checkpoint, guard, subject of the runs $run_ids whose model is in $models: what the
-- newest of them found, in the order of their publication.
with final as (
    select
        model,
        checkpoint,
        guard,
        subject,
        max(version) as newest,
        arg_max({'n': n, 'mean': mean, 'value': value, 'ci_low': ci_low, 'ci_high': ci_high}, version) as found,
    from reward_guards
    where list_contains($run_ids, run_id) and list_contains($models, model)
    group by model, checkpoint, guard, subject
    order by model, guard, subject, newest, checkpoint
)

select * from final
