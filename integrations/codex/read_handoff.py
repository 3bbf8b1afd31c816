#!/usr/bin/env python3
"""Prints the saved handoff of the WebCodex Session its operator chose; it only reads (A-40 to A-42).

All the work is in ``adapter_kit``: a script is compiled anew at each start, a module only once.
"""

import sys


def main() -> None:
    """The process has ended with 0 or 1, never with 2 (A-03)."""
    folder = __file__.replace("\\", "/").rpartition("/")[0]
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    from adapter_kit import handoff_run

    handoff_run.run(sys.argv[1:])


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001  # an installation without its kit must not end in a traceback
        sys.stderr.write('{"status":"unavailable","reason":"handoff_read_unconfirmed"}\n')
        sys.exit(1)
