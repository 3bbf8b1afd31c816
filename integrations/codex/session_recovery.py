#!/usr/bin/env python3
"""Offers the evidence of an associated WebCodex Session to a local conversation; it only reads (A-50, A-62).

All the work is in ``adapter_kit``: a script is compiled anew at each start, a module only once.
"""

import gc
import sys


def main() -> None:
    """The process has ended with 0 or 1, never with 2 (A-03)."""
    gc.disable()  # a run is over before there is garbage, and loading the kit would be searched for it
    script = __file__.replace("\\", "/") if sys.platform == "win32" else __file__
    folder = script.rpartition("/")[0]
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    from adapter_kit import recovery_run

    recovery_run.run(sys.argv[1:], __file__)


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001  # an installation without its kit must not end in a traceback
        sys.stdout.write(
            '{"systemMessage":"WebCodex recovery is unavailable (read_unconfirmed). '
            'Evidence was not refreshed and nothing was replayed.","reason":"read_unconfirmed"}\n'
        )
        sys.stdout.flush()
        sys.exit(1)
