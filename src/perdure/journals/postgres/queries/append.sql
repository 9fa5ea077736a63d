-- Everything a batch of commits brings, in one statement; the functions stand in migrations/0002_append.sql.
SELECT accepted
FROM perdure.hold_fences(:fence_partitions, :fence_epochs, :fence_incarnations) AS held
CROSS JOIN LATERAL perdure.move_runs(
    held, :move_fence, :move_run_id, :move_expected_seq, :move_seq, :move_commit_id, :move_state, :move_ir,
    :move_generation, :move_counter, :move_busy, :move_started_at, :move_ended_at, :move_error
) AS moved
CROSS JOIN LATERAL perdure.create_runs(
    moved, held, :create_fence, :create_run_id, :create_seq, :create_commit_id, :create_state, :create_workflow,
    :create_workflow_version, :create_ir, :create_partition, :create_tenant, :create_tags, :create_generation,
    :create_counter, :create_busy, :create_created_at, :create_started_at, :create_ended_at, :create_error, :create_parent,
    :create_key_tenant, :create_key, :create_body_hash
) AS accepted
CROSS JOIN LATERAL perdure.append_events(accepted, :run_id, :event_commit, :event_seq, :event_type, :event_at, :event_commit_id, :event_body)
CROSS JOIN LATERAL perdure.append_tags(accepted, :tag_commit, :tag_run_id, :tag_name, :tag_value, :tag_created_at)  -- if tag_commit
CROSS JOIN LATERAL perdure.clear_timers(accepted, :clear_commit, :clear_run_id, :clear_timer_id)  -- if clear_commit
CROSS JOIN LATERAL perdure.set_timers(accepted, :timer_commit, :timer_run_id, :timer_timer_id, :timer_due_at, :timer_partition)  -- if timer_commit
CROSS JOIN LATERAL perdure.keep_snapshots(accepted, :snapshot_commit, :snapshot_run_id, :snapshot_seq, :snapshot_version, :snapshot_body)  -- if snapshot_commit
CROSS JOIN LATERAL perdure.keep_approvals(accepted, :approval_commit, :approval_approval_id, :approval_run_id, :approval_node, :approval_state, :approval_tenant, :approval_requested_at, :approval_expires_at, :approval_decided_at, :approval_body)  -- if approval_commit
CROSS JOIN LATERAL perdure.keep_dead_letters(accepted, :letter_commit, :letter_dead_letter_id, :letter_run_id, :letter_node, :letter_state, :letter_tenant, :letter_created_at, :letter_resolved_at, :letter_body)  -- if letter_commit
CROSS JOIN LATERAL perdure.keep_triggers(accepted, :trigger_commit, :trigger_tenant, :trigger_name, :trigger_trigger_id, :trigger_life, :trigger_head, :trigger_kind, :trigger_state, :trigger_revision, :trigger_workflow, :trigger_hook, :trigger_cursor, :trigger_next_at, :trigger_last_at, :trigger_waiting, :trigger_open, :trigger_parked, :trigger_error, :trigger_body)  -- if trigger_commit
CROSS JOIN LATERAL perdure.clear_subscriptions(accepted, :unsubscribe_commit, :unsubscribe_place)  -- if unsubscribe_commit
CROSS JOIN LATERAL perdure.set_subscriptions(accepted, :subscribe_commit, :subscribe_tenant, :subscribe_topic, :subscribe_key, :subscribe_run_id, :subscribe_place, :subscribe_since, :subscribe_since_at, :subscribe_partition)  -- if subscribe_commit
CROSS JOIN LATERAL perdure.answer_commands(accepted, :answer_commit, :answer_command_id, :answer_body, :now)  -- if answer_commit
CROSS JOIN LATERAL perdure.consume_notices(accepted, :consume_commit, :consume_run_id, :consume_notice_id)  -- if consume_commit
CROSS JOIN LATERAL perdure.write_notices(accepted, :notice_commit, :notice_partition, :notice_run_id, :notice_from_run_id, :notice_body)  -- if notice_commit
CROSS JOIN LATERAL perdure.write_occurrences(accepted, :occurrence_commit, :occurrence_tenant, :occurrence_topic, :occurrence_key, :occurrence_id, :occurrence_at, :occurrence_body)  -- if occurrence_commit
CROSS JOIN LATERAL perdure.write_ledger(accepted, :ledger_commit, :ledger_tenant, :ledger_day, :ledger_workflow, :ledger_model, :ledger_input, :ledger_cached, :ledger_written, :ledger_output, :ledger_reasoning, :ledger_calls, :ledger_usd, :ledger_unpriced, :ledger_unsettled_calls, :ledger_unsettled_usd)  -- if ledger_commit
CROSS JOIN LATERAL perdure.write_agent_entries(accepted, :entry_commit, :entry_tenant, :entry_space, :entry_name, :entry_place, :entry_owner, :entry_run_id, :entry_at, :entry_body)  -- if entry_commit
