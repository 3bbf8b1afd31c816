"""One run of the recovery entry: its arguments, its verbs, and one answer on stdout (A-50, A-61)."""

from adapter_kit import paths, process, recovery_text, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    Options = dict[str, list[str]]

_USAGE = b"""\
usage: session_recovery.py --registry PATH VERB

  hook                              answer one SessionStart or UserPromptSubmit payload on stdin
  discover --project-root P         list the Sessions of the Project at exactly P; chooses and writes nothing
  associate --project-root P --session S --entry-root E [--entry-root E ...] [--local-session L]
                                    let conversations at E (or only L) read Session S; writes the registry
  status                            say what there is and when a hook last ran; sends nothing
  registration                      print the command line for the host's hook configuration; changes nothing
"""
_HOOK = "hook"
_REQUIRED = {
    _HOOK: (),
    "discover": ("--project-root",),
    "associate": ("--project-root", "--session", "--entry-root"),
    "status": (),
    "registration": (),
}
_OPTIONAL = {"associate": ("--local-session",)}
_REPEATED = "--entry-root"
_FIRST_OPTION = 3
_UNCONFIRMED = "read_unconfirmed"


def run(arguments: "list[str]", script: str) -> "NoReturn":
    """The process has ended: with 0 and the answer on stdout, or with 1 and the reason there (A-03, A-61)."""
    process.prepare()
    reason = _UNCONFIRMED
    try:
        if arguments in (["--help"], ["-h"]):
            process.end(0, out=_USAGE)
        process.end(0, out=_answer([paths.argument(word) for word in arguments], script))
    except refusal.Refused as refused:
        reason = refused.reason
    except BaseException:  # noqa: BLE001, S110  # the outermost edge: no traceback may reach the host
        pass
    _fail(reason)


def _expired() -> "NoReturn":
    _fail(_UNCONFIRMED)


def _fail(reason: str) -> "NoReturn":
    process.end(1, out=recovery_text.failure(reason))


def _answer(arguments: "list[str]", script: str) -> bytes:
    registry_path, verb, options = _parsed(arguments)
    if verb == _HOOK:
        from adapter_kit import recovery_hook

        recovery_hook.answer(registry_path, script, process.drained, process.say, _expired)
        return b""
    from adapter_kit import recovery_setup  # only for the operator, so a hook does not pay for it

    if verb == "discover":
        return recovery_setup.discover(registry_path, options, _expired)
    if verb == "associate":
        return recovery_setup.associate(registry_path, options, _expired)
    if verb == "status":
        return recovery_setup.status(registry_path)
    return recovery_setup.registered(registry_path, script)


def _parsed(arguments: "list[str]") -> "tuple[str, str, Options]":
    """The registry's path, the verb and its options.

    Raises:
        Refused: ``invalid_arguments``, after stdin was drained if this could be a hook (A-71).
    """
    flag, path, verb = (*arguments[:_FIRST_OPTION], "", "", "")[:_FIRST_OPTION]
    options = _options(arguments[_FIRST_OPTION:])
    if flag == "--registry" and path and path[0] != "-" and verb in _REQUIRED and options is not None:
        required = set(_REQUIRED[verb])
        if required <= options.keys() <= required | set(_OPTIONAL.get(verb, ())):
            return path, verb, options
    if _HOOK in arguments or not any(word in _REQUIRED for word in arguments):
        process.drop()
    raise refusal.Refused("invalid_arguments")


def _options(words: "list[str]") -> "Options | None":
    """Each option with its values, or None unless each has a value and only ``--entry-root`` comes twice."""
    found: Options = {}
    if len(words) % 2:
        return None
    for name, value in zip(words[::2], words[1::2], strict=True):
        values = found.setdefault(name, [])
        if not value or (values and name != _REPEATED):
            return None
        values.append(value)
    return found
