"""The first frame of a Runner: who it is and what it holds (R-33); must never rule on its lease."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from webcodex.protocol import bounds, fields, records

_JSON_SMALL: Final = 16 * 1024
_MAX_INVENTORY: Final = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectEntry:
    """One registered Project as the Server hears of it (R-33)."""

    id: str
    path: str
    name: str | None = None
    allow_patch: bool = True
    disabled: bool = False
    kind: str | None = field(default=None, metadata=records.OMIT_NONE)
    description: str | None = field(default=None, metadata=records.OMIT_NONE)

    @classmethod
    def read(cls, source: fields.Fields) -> "ProjectEntry":
        """Reads the entry in `source`."""
        return cls(
            id=source.matching("id", bounds.PROJECT_ID),
            path=source.text("path", most=4096),
            name=source.text_or_none("name", most=128),
            allow_patch=source.boolean("allow_patch"),
            disabled=source.boolean("disabled"),
            kind=source.text_or_none("kind", most=64),
            description=source.text_or_none("description", most=1024),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """One coding agent that this Runner process can start (R-33)."""

    provider_id: str
    provider_instance_id: str
    name: str

    @classmethod
    def read(cls, source: fields.Fields) -> "Provider":
        """Reads the provider in `source`."""
        return cls(
            provider_id=source.matching("provider_id", bounds.PROVIDER_ID),
            provider_instance_id=source.matching("provider_instance_id", bounds.IDENTITY),
            name=source.text("name", most=128),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """What program the Runner is."""

    version: str
    git_commit: str | None = None
    git_dirty: bool | None = None

    @classmethod
    def read(cls, source: fields.Fields) -> "Build":
        """Reads the build in `source`."""
        return cls(
            version=source.text("version", most=64),
            git_commit=source.text_or_none("git_commit", most=64),
            git_dirty=source.boolean_or_none("git_dirty"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class JobInventory:
    """Which Jobs the Runner holds; their records are read by whoever owns Jobs (R-64)."""

    active_complete: bool
    jobs: tuple[fields.JsonObject, ...] = ()

    @classmethod
    def read(cls, source: fields.Fields) -> "JobInventory":
        """Reads the inventory in `source`."""
        return cls(
            active_complete=source.boolean("active_complete"),
            jobs=source.each("jobs", fields.Fields.whole, most=_MAX_INVENTORY),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RunInventory:
    """Which coding agent Runs the Runner holds (T-62)."""

    complete: bool
    runs: tuple[fields.JsonObject, ...] = ()

    @classmethod
    def read(cls, source: fields.Fields) -> "RunInventory":
        """Reads the inventory in `source`."""
        return cls(
            complete=source.boolean("complete"),
            runs=source.each("runs", fields.Fields.whole, most=_MAX_INVENTORY),
        )


class InventoryInvalid(fields.Malformed):
    """A hello is sound but what it says it holds is not (`register_failed`, R-32)."""


class GenerationUnsupported(fields.Malformed):
    """A hello speaks another protocol generation (`protocol_unsupported`, R-32)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hello:
    """R→S: who registers and what it holds; `projects` is None when pages follow (R-33, R-35)."""

    TYPE: ClassVar = "hello"
    client_id: str
    runner_instance_id: str
    store_id: str
    process_started_at: int
    build: Build
    capabilities: Mapping[str, bool]
    projects: tuple[ProjectEntry, ...] | None
    job_concurrency_limit: int
    job_inventory: JobInventory
    coding_agent_inventory: RunInventory
    coding_agent_providers: tuple[Provider, ...] = ()
    protocol: int = bounds.GENERATION
    display_name: str | None = None
    owner: str | None = None
    hostname: str | None = None
    host_context: fields.JsonObject = field(default_factory=dict)
    policy: fields.JsonObject = field(default_factory=dict)

    @classmethod
    def read(cls, source: fields.Fields) -> "Hello":
        """Reads the hello in `source`, of this generation only."""
        if source.integer("protocol") != bounds.GENERATION:
            raise GenerationUnsupported("hello.protocol is another generation")
        return cls(
            client_id=source.matching("client_id", bounds.CLIENT_ID),
            runner_instance_id=source.matching("runner_instance_id", bounds.IDENTITY),
            store_id=source.matching("store_id", bounds.IDENTITY),
            display_name=source.text_or_none("display_name", most=128),
            owner=source.text_or_none("owner", most=128),
            hostname=source.text_or_none("hostname", most=128),
            process_started_at=source.integer("process_started_at"),
            build=Build.read(source.nested("build")),
            host_context=source.object("host_context", most_bytes=_JSON_SMALL),
            policy=source.object("policy", most_bytes=_JSON_SMALL),
            capabilities=source.flags("capabilities", most=64),
            job_concurrency_limit=source.integer("job_concurrency_limit", least=1, most=64),
            coding_agent_providers=source.each("coding_agent_providers", Provider.read, most=8),
            **_inventories(source),
        )


def _inventories(source: fields.Fields) -> dict[str, Any]:
    try:
        projects = source.each_or_none("projects", ProjectEntry.read, most=bounds.MAX_PAGE_PROJECTS)
        if projects is not None and len({entry.id for entry in projects}) != len(projects):
            raise InventoryInvalid("hello.projects names one Project twice")
        return {
            "projects": projects,
            "job_inventory": JobInventory.read(source.nested("job_inventory")),
            "coding_agent_inventory": RunInventory.read(source.nested("coding_agent_inventory")),
        }
    except fields.Malformed as error:
        raise InventoryInvalid(str(error)) from error
