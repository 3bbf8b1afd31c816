"""What this Runner process says of itself: its hello and its Project inventory (R-33, R-35)."""

import asyncio
import socket
import time
import uuid
from importlib import metadata

from webcodex.protocol import bounds, hello, inventory, messages
from webcodex.runner import settings, work

VERSION = metadata.version("webcodex")


class Presence:
    """One Runner process, from its start to its end."""

    def __init__(self, configured: settings.Settings, store_id: str, tasks: work.Work) -> None:
        self.client_id = configured.client_id
        self.instance_id = str(uuid.uuid4())
        self.inventory_changed = asyncio.Event()
        self._settings = configured
        self._store_id = store_id
        self._work = tasks
        self._started_at = int(time.time())
        self._hellos = 0
        self._snapshots = 0

    def hello(self) -> hello.Hello:
        """Returns the greeting of a new connection; where it cannot hold every Project, pages are due."""
        self._hellos += 1
        entries = self._work.registry.entries()
        paged = len(entries) > bounds.MAX_PAGE_PROJECTS
        if paged:
            self.inventory_changed.set()
        else:
            self.inventory_changed.clear()
        policy = self._settings.policy
        return hello.Hello(
            client_id=self.client_id,
            runner_instance_id=self.instance_id,
            store_id=self._store_id,
            display_name=self._settings.display_name,
            owner=self._settings.owner,
            hostname=self._settings.hostname or socket.gethostname()[:128],
            process_started_at=self._started_at,
            build=hello.Build(version=VERSION),
            host_context=self._settings.host_context,
            policy={
                "allow_raw_shell": policy.allow_raw_shell,
                "allow_cwd_anywhere": policy.allow_cwd_anywhere,
                "max_timeout_secs": policy.max_timeout_secs,
                "max_output_bytes": policy.max_output_bytes,
            },
            capabilities=self._work.capabilities(),
            projects=None if paged else entries,
            job_concurrency_limit=self._settings.max_concurrent_jobs,
            job_inventory=self._work.jobs.inventory(),
            coding_agent_inventory=hello.RunInventory(complete=True),
        )

    def pages(self) -> list[messages.InventoryPage]:
        """Returns the whole inventory as it is now, as a new set of pages."""
        self.inventory_changed.clear()
        self._snapshots += 1
        return inventory.pages(
            self._work.registry.entries(), generation=self._hellos, snapshot_sequence=self._snapshots
        )
