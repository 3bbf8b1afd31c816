"""Fixes the sentence and the recovery word of every error kind (M-15, M-16, O-18); none repeats input."""

from typing import Final

_FIX: Final = "fix_input"
_RETRY: Final = "retry_same"
_OBSERVE: Final = "reobserve"
_WAIT: Final = "wait"
_USER: Final = "user_action"
_RECONCILE: Final = "reconcile"

WORDS: Final[dict[str, tuple[str, str]]] = {
    "invalid_arguments": ("An argument has a value outside its bounds; see the tool's schema", _FIX),
    "invalid_session_id": ("That is not a Workflow Session id; use one from list_sessions", _FIX),
    "unknown_session_id": ("No such Workflow Session; use list_sessions to find one", _FIX),
    "unknown_session_ref": ("No such session_ref for this credential; use the canonical session_id", _FIX),
    "invalid_resume_session_id": (
        "That Workflow Session cannot be resumed; leave session_id out to start a new one",
        _FIX,
    ),
    "session_authority_denied": ("That Workflow Session belongs to another authority group", _FIX),
    "session_project_mismatch": ("The Project is not the one of that Workflow Session", _FIX),
    "session_closed": ("Session is closed; continue in a new one", _USER),
    "session_guard_denied": ("The Session's mode or guards deny this call", _USER),
    "session_message_capacity": (
        "200 open messages need attention; resolve some, then post again",
        _USER,
    ),
    "invalid_session_message": ("The message has a value outside its bounds; see the tool's schema", _FIX),
    "unknown_message_id": ("No such message is retained in that Workflow Session", _FIX),
    "idempotency_conflict": ("The same key was used with other content; take a new key", _FIX),
    "unknown_project": ("No such Project; use list_projects to find one", _FIX),
    "ambiguous_project": ("Several Projects match; use the canonical id", _FIX),
    "invalid_project": ("Name the Project by its canonical id or project_ref", _FIX),
    "invalid_client_id": ("That is not a Runner's client_id", _FIX),
    "invalid_coding_instruction": ("The instruction must hold 1 to 4,000 characters", _FIX),
    "agent_capability_unavailable": ("That is not served here", _FIX),
    "runner_unavailable": ("The Project's Runner is not connected; start it, then try again", _WAIT),
    "timeout": ("The Runner did not answer in time; the same call is safe", _RETRY),
    "invalid_path": ("That is no path of the Project, or it leaves it; name one beneath its root", _FIX),
    "sensitive_path": ("That path is withheld because it may hold secrets; go on without it", _FIX),
    "not_found": ("Nothing is at that path of the Project; list its files", _FIX),
    "permission_denied": ("The Runner has no right to that path; give it the right, or go on without", _USER),
    "edit_precondition_failed": (
        "A file is not as its edit expects and nothing was changed; read the files again",
        _OBSERVE,
    ),
    "edit_text_not_found": (
        "A text to replace does not occur often enough and nothing was changed; name one that does",
        _FIX,
    ),
    "edit_text_ambiguous": (
        "A text to replace occurs more often than stated, so nothing was changed; name a longer one",
        _FIX,
    ),
    "edit_too_large": ("At most 1 MiB of a file and 3 MiB of a call are edited; make the call smaller", _FIX),
    "duplicate_edit_path": ("Two edits meet in one path; name each path once", _FIX),
    "path_conflict": ("That name is there in another spelling; use the stored one", _FIX),
    "path_changed": (
        "A path came to lead elsewhere meanwhile and nothing was changed; read it again",
        _OBSERVE,
    ),
    "invalid_utf8": ("That text is not UTF-8, so nothing was changed; write the file as a whole", _FIX),
    "not_file": ("That path leads to something that is no regular file; name a file", _FIX),
    "io_error": ("The Runner could not write its files and nothing was changed; look at its disk", _USER),
    "edit_outcome_unknown": (
        "The edits may have been made; compare the files' SHA-256 by read_files before anything else",
        _RECONCILE,
    ),
    "edit_partially_applied": (
        "Some files were changed by others meanwhile and left so; compare each with its backup",
        _RECONCILE,
    ),
    "edit_recovery_diverged": (
        "After an interruption some files could not be put back; compare each with its backup",
        _RECONCILE,
    ),
    "policy_rejected": ("The Project's policy does not allow that; ask its operator", _USER),
    "idempotency_capacity": ("Too many keys are kept; wait, or ask without one", _WAIT),
    "invalid_pattern": (
        "No line can match that pattern, or it is no Python regular expression; change it",
        _FIX,
    ),
    "job_not_found": ("No such Job; use list_jobs to find one", _FIX),
    "job_project_mismatch": ("That Job belongs to another Project; use list_jobs to find one", _FIX),
    "job_capacity_full": ("The Runner runs as many processes as it may; wait, or stop a Job", _WAIT),
    "invalid_cwd": ("No process may start in that directory; name one beneath the Project's root", _FIX),
    "process_spawn_failed": ("The program could not be started; nothing ran, so check argv", _FIX),
    "invalid_observation_token": ("That is no token of this Job; leave it out to begin anew", _FIX),
    "job_start_outcome_unknown": (
        "The process may be running; follow its job_id by observe_jobs and start nothing again",
        _RECONCILE,
    ),
    "project_root_replaced": ("The Project's directory was replaced; register it again on its Runner", _USER),
    "store_unavailable": ("The Server's database did not answer; nothing was written, try again", _RETRY),
    "internal_error": ("The Server failed inside; read the state before trying again", _RECONCILE),
    "invalid_external_observation": (
        "The report has a value outside its bounds; see the tool's schema",
        _FIX,
    ),
    "external_observation_conflict": (
        "Another report is stored under this identity; it stays as it is",
        _FIX,
    ),
    "external_observation_capacity": ("No more reports fit; none was removed", _USER),
    "external_observation_storage_uncertain": (
        "The report may or may not be stored; send the same report again, never repeat the reported work",
        _RETRY,
    ),
    "goal_not_found": ("No such Goal of yours; use list_goals to find one", _OBSERVE),
    "goal_terminal": ("The Goal has ended and stays as it is; read it", _OBSERVE),
    "goal_revision_changed": ("The Goal's revision has changed; read it, then decide again", _OBSERVE),
    "goal_idempotency_conflict": (
        "The same key was used for another request; read what that one did, then take a new key",
        _OBSERVE,
    ),
    "goal_plan_incomplete": ("Steps of the plan are not completed; record them in a checkpoint first", _FIX),
    "goal_update_empty": ("The update changes nothing; name a field to change", _FIX),
    "goal_terminal_reason_requires_terminal_lifecycle": (
        "A terminal_reason goes with the lifecycle completed or cancelled",
        _FIX,
    ),
    "goal_correlation_capacity_exceeded": (
        "The Goal has 64 links and takes no more; make another Goal",
        _FIX,
    ),
    "goal_store_unavailable": ("The Goal store did not answer", _OBSERVE),
    "invalid_goal_id": ("That is not a Goal id; use one from list_goals", _FIX),
    "invalid_goal_title": ("The title must hold 1 to 200 characters and no secret", _FIX),
    "invalid_goal_objective": ("The objective must hold 1 to 8,192 bytes and no secret", _FIX),
    "invalid_goal_terminal_reason": ("The reason must hold 1 to 4,096 bytes and no secret", _FIX),
    "invalid_goal_idempotency_key": ("The idempotency_key must hold 1 to 128 characters", _FIX),
    "invalid_goal_revision": ("expected_revision must be the revision that was read, 1 or more", _FIX),
    "invalid_goal_lifecycle": ("The lifecycle is active, completed or cancelled", _FIX),
    "invalid_goal_plan": ("The Goal's plan breaks its rules; see docs/spec/70-goals.md, 2 and 3", _FIX),
    "invalid_goal_checkpoint": (
        "The checkpoint does not fit the plan, or breaks its bounds; nothing of it was recorded",
        _FIX,
    ),
    "invalid_goal_list_limit": ("The limit is 1 to 100", _FIX),
    "invalid_goal_list_offset": ("The offset is 0 or more", _FIX),
    "invalid_goal_list_query": ("The query holds at most 200 characters", _FIX),
    "agent_not_found": ("No such Agent of yours; leave controller_agent_id out", _FIX),
    "agent_task_not_found": ("No such AgentTask of yours", _OBSERVE),
    "invalid_agent_task_id": ("That is not an AgentTask id", _FIX),
    "external_observation_store_unavailable": ("The report store did not answer; try again", _OBSERVE),
}
