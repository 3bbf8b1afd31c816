"""Which tests of the adapters cannot run on Windows, or not under Wine, and why.

Each entry names a file, a test in it, or one of its cases; one that names nothing that is there is an error.
"""

from collections.abc import Iterable, Mapping
from typing import Final

SHELL: Final = "it needs a POSIX shell"
STOPPED: Final = "it stops a run after one effect by a signal of POSIX"
DISCOVERY: Final = "test_recovery_discovery.py"
RECOVERY: Final = "test_recovery_hook.py"
SAVE: Final = "test_outbox_save.py::test_report"
LINKS: Final = "Wine 8 makes no symbolic links"

# Files that are not even read on Windows.
NOT_COLLECTED: Final[dict[str, str]] = {
    "test_recovery_server.py": "it runs the Server, which is not claimed for Windows",
}

POSIX_ONLY: Final[dict[str, tuple[str, ...]]] = {
    SHELL: (
        "test_hook_network.py::test_closed_output_never_ends_up_in_a_private_file",
        "test_hook_registration.py::test_registered_command_line_is_read_back_by_sh_and_records",
        "test_recovery_registry.py::test_registration_is_one_line_that_sh_reads_back_and_that_never_changes",
        f"{RECOVERY}::test_unassociated_start_says_what_may_be_done_and_its_prompts_say_nothing",
        "test_hook_stdin.py::test_closed_stdin_is_a_missing_document",
        "test_outbox_save.py::test_report_that_cannot_be_written_is_not_claimed_and_leaves_nothing",
    ),
    STOPPED: (
        "test_outbox_killed.py",
        "test_recovery_killed.py",
        "test_recovery_killed.py::test_killed_run_leaves_a_snapshot_only_of_what_it_has_said",
        f"{SAVE}_that_another_run_delivers_before_the_send_lock_is_held_counts_as_delivered",
        f"{SAVE}_that_is_set_aside_before_the_send_lock_is_held_is_not_called_delivered",
        "test_outbox_set_aside.py::test_set_aside_waits_for_no_other_run_longer_than_its_bound",
        f"{SAVE}_whose_set_aside_was_cut_short_meanwhile_is_finished_and_not_sent",
    ),
    "Windows ends a process by no signal that the process could answer": (
        "test_hook_network.py::test_signal_while_the_server_is_asked_ends_the_run_visibly",
        "test_hook_network.py::test_signal_while_stdin_is_read_ends_the_run_visibly",
        f"{RECOVERY}::test_signal_ends_a_run_visibly_with_one",
        "test_read_handoff.py::test_signal_ends_the_run_visibly_with_one",
    ),
    "Windows has no FIFO among files": (
        "test_private_files.py::test_file_that_is_not_private_is_refused[fifo]",
    ),
    "it interposes on the calls of POSIX; test_private_files_windows.py has its like": (
        "test_private_files.py::test_file_exchanged_between_the_check_and_the_opening_is_refused",
    ),
    "the imports of the hot path are a promise of the POSIX half": (
        "test_hook_start.py::test_hot_run_loads_the_kit_and_five_modules_of_the_interpreter",
        "test_recovery_start.py::test_hook_loads_the_kit_and_five_modules_of_the_interpreter",
        "test_hook_start.py::test_no_verb_loads_what_an_adapter_must_not_have",
    ),
    "two names that differ in case alone are one name on Windows": (
        "test_hook_configuration.py::test_only_the_exact_root_is_the_project",
    ),
    "an interpreter on Windows does not start from a link to it": (
        "test_hook_registration.py::test_only_an_interpreter_with_a_special_path_is_quoted",
    ),
    "the most memory a process has held is read from /proc": (
        "test_hook_stdin.py::test_memory_stays_bounded_while_stdin_is_drained",
    ),
    "it needs paths as POSIX has them": (
        f"{DISCOVERY}::test_registry_takes_sixty_four_associations_and_no_more_bytes_than_it_can_read",
        "test_hook_payload.py::test_published_vectors_are_reproduced",
    ),
    "Windows opens no path of more than 259 characters unless the machine is set up for it": (
        "test_recovery_text.py::test_reference_that_would_be_too_long_is_refused_and_stores_nothing",
    ),
    "no socket can be the stdin of a program on Windows": (
        "test_hook_stdin.py::test_stdin_that_does_not_block_is_read_to_its_end",
    ),
}

NOT_UNDER_WINE: Final[dict[str, tuple[str, ...]]] = {
    LINKS: (
        "test_read_handoff.py::test_reader_runs_only_inside_the_configured_project",
        "test_recovery_registry.py::test_operator_files_inside_any_root_are_refused_however_they_are_reached",
        "test_recovery_selection.py::test_replaced_entry_root_is_refused_only_where_it_is_chosen",
        "test_recovery_selection.py::test_project_root_that_is_gone_replaced_or_behind_a_link_is_refused",
        "test_recovery_selection.py::test_directory_is_matched_in_its_resolved_form",
        "test_hook_network.py::test_every_verb_refuses_what_is_not_private[<lambda>-invalid_lock1]",
        "test_hook_configuration.py::test_project_root_must_be_an_existing_directory_in_its_resolved_form",
        "test_hook_configuration.py::test_operator_files_may_not_lie_in_the_project_however_they_are_reached",
        "test_hook_configuration.py::test_operator_files_behind_a_linked_directory_outside_the_project_are_used",
        "test_hook_configuration.py::test_moved_project_or_exchanged_link_matches_no_longer",
        "test_private_files.py::test_file_that_is_not_private_is_refused[linked]",
        "test_private_files.py::test_directory_that_is_not_private_is_refused[linked]",
        "test_outbox_save.py::test_full_outbox_before_a_dead_server_deletes_nothing_and_knows_its_own_report",
    ),
    "Wine 8 now and then fails to start one of fifty programs": (
        "test_outbox_parallel.py::test_fifty_parallel_runs_lose_nothing",
    ),
    "under Wine a run may hold the lock for longer than another waits for it": (
        f"{RECOVERY}::test_two_conversations_starting_together_both_get_their_evidence",
    ),
    "there is no Git for Windows under Wine": (
        "test_recovery_selection.py::test_other_repositories_below_an_entry_root_do_not_inherit_it",
    ),
    "Wine 8 makes no junctions": (
        "test_private_files_windows.py::test_reparse_points_are_refused_wherever_they_lead",
        "test_private_files_windows.py::test_folder_reached_through_a_junction_is_used_by_its_own_path",
    ),
    "Wine 8 keeps a file's access control as the nine bits of a POSIX mode": (
        "test_private_files_windows.py::test_made_things_keep_a_protected_list_of_three",
        "test_private_files_windows.py::test_entries_on_a_disk_that_admit_or_deny_others_are_judged",
    ),
}


def reasons(tests: Iterable[str], table: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Each of the tests, given by node id, that the table keeps from running, with the reason.

    Raises:
        LookupError: if an entry names nothing in a file whose tests are given.
    """
    names = {test: _without_folder(test) for test in tests}
    files = {name.partition("::")[0] for name in names.values()}
    found: dict[str, str] = {}
    for why, entries in table.items():
        for entry in entries:
            parts = (f"{entry}::", f"{entry}[")
            named = [test for test, name in names.items() if name == entry or name.startswith(parts)]
            if not named and entry.partition("::")[0] in files:
                raise LookupError(f"{entry} names no test")
            found |= dict.fromkeys(named, why)
    return found


def _without_folder(test: str) -> str:
    file, colons, name = test.partition("::")
    return file.replace("\\", "/").rpartition("/")[2] + colons + name
