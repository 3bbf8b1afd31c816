"""Declares the arguments of the Goal tools, with the bounds of G-14 and the refusal of secrets (G-08)."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from webcodex.core import goal_plans, goals, limits, redaction
from webcodex.core.json_value import JsonObject
from webcodex.tools.contract import Params


def _without_secret(value: str) -> str:
    if redaction.holds_credential(value):
        raise ValueError("holds a credential")
    return value


def _of_bytes(most: int) -> AfterValidator:
    def within(value: str) -> str:
        if not 1 <= len(value.encode()) <= most:
            raise ValueError("1 byte to the bound")
        return _without_secret(value)

    return AfterValidator(within)


GoalId = Annotated[str, Field(pattern=goals.GOAL_ID, description="Exact Goal id, wc_goal_...")]
Title = Annotated[
    str,
    Field(min_length=1, max_length=goals.TITLE_CHARS, description="What the Goal is called."),
    AfterValidator(_without_secret),
]
Objective = Annotated[
    str,
    Field(description="What is to be true in the end; 1 to 8,192 bytes."),
    _of_bytes(goals.OBJECTIVE_BYTES),
]
TerminalReason = Annotated[str, _of_bytes(goals.TERMINAL_REASON_BYTES)]
Condition = Annotated[str, _of_bytes(goal_plans.CONDITION_BYTES)]
Controller = Annotated[
    str,
    Field(min_length=1, max_length=128, description="Label: one of your durable Agents; it grants nothing."),
]
Key = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=goals.KEY_CHARS),
    Field(description="The same key and arguments change once; send both again when an answer was lost."),
]
Revision = Annotated[
    int, Field(ge=1, le=limits.JSON_INT, description="The revision that was read; another one is refused.")
]
StepId = Annotated[str, Field(pattern=goal_plans.STEP_ID), AfterValidator(_without_secret)]
SessionName = Annotated[
    str,
    Field(
        pattern=r"^(?:wc_sess_[A-Za-z0-9_-]{1,128}|~s[1-9][0-9]{0,18})$",
        description="Workflow Session: wc_sess_... or a session_ref such as ~s1.",
    ),
]
Lifecycle = Literal["active", "completed", "cancelled"]

WORDS: Final = {
    "goal_id": "invalid_goal_id",
    "title": "invalid_goal_title",
    "objective": "invalid_goal_objective",
    "completion_conditions": "invalid_goal_plan",
    "steps": "invalid_goal_plan",
    "controller_agent_id": "agent_not_found",
    "idempotency_key": "invalid_goal_idempotency_key",
    "expected_revision": "invalid_goal_revision",
    "lifecycle": "invalid_goal_lifecycle",
    "terminal_reason": "invalid_goal_terminal_reason",
    "completed_step_ids": "invalid_goal_checkpoint",
    "current_step_id": "invalid_goal_checkpoint",
    "summary": "invalid_goal_checkpoint",
    "session_id": "invalid_session_id",
    "task_id": "invalid_agent_task_id",
    "query": "invalid_goal_list_query",
    "offset": "invalid_goal_list_offset",
    "limit": "invalid_goal_list_limit",
}  # G-14; G-35 has one word for every Agent that is not the caller's


class StepParams(Params):
    """One step of a new plan."""

    id: StepId
    title: Annotated[
        str,
        Field(min_length=1, max_length=goal_plans.STEP_TITLE_CHARS, description="What the step is."),
        AfterValidator(_without_secret),
    ]


Conditions = Annotated[
    tuple[Condition, ...],
    Field(strict=False, max_length=goal_plans.CONDITIONS, description="What must hold; at most 8, fixed."),
]
Steps = Annotated[
    tuple[StepParams, ...],
    Field(strict=False, max_length=goal_plans.STEPS, description="At most 32, ids unique, fixed."),
]


class GoalParams(Params):
    """Exactly one Goal."""

    goal_id: GoalId


class ListParams(Params):
    """Which Goals are wanted, and which page of them."""

    lifecycle: Annotated[Lifecycle | None, Field(description="Only Goals of this lifecycle.")] = None
    query: Annotated[str | None, Field(max_length=200, description="Literal text in title or objective.")] = (
        None
    )
    offset: Annotated[int, Field(ge=0, le=2**31, description="Goals to pass over.")] = 0
    limit: Annotated[int, Field(ge=1, le=100, description="Goals of a page.")] = 50


class ChangeParams(Params):
    """A change that is made once per key."""

    idempotency_key: Key

    def parameters(self) -> JsonObject:
        """Returns what a replay must repeat: every parameter but the key (G-06)."""
        return self.model_dump(mode="json", exclude={"idempotency_key"})


class CreateParams(ChangeParams):
    """A new Goal; its plan stays as it is given here."""

    title: Title
    objective: Objective
    controller_agent_id: Controller | None = None
    completion_conditions: Conditions = ()
    steps: Steps = ()


class PrepareParams(ChangeParams):
    """A new Goal and the Workflow Session it is linked to."""

    session_id: SessionName
    title: Title
    objective: Objective
    controller_agent_id: Controller | None = None
    completion_conditions: Conditions
    steps: Steps


class CheckpointParams(ChangeParams):
    """What has been done of a plan since the last checkpoint."""

    goal_id: GoalId
    expected_revision: Revision
    completed_step_ids: Annotated[
        tuple[StepId, ...],
        Field(strict=False, max_length=goal_plans.STEPS, description="Steps that are done; may be empty."),
    ]
    current_step_id: Annotated[StepId | None, Field(description="The step now in hand.")] = None
    summary: Annotated[
        str,
        Field(description="What is done and what is next; 1 to 2,048 bytes."),
        _of_bytes(goal_plans.SUMMARY_BYTES),
    ]

    @model_validator(mode="after")
    def _names_each_step_once(self) -> Self:
        if not goal_plans.is_consistent(self.completed_step_ids, self.current_step_id):
            raise ValueError("a step is named twice")
        return self


class UpdateParams(ChangeParams):
    """What is to be different; a null ``controller_agent_id`` clears the label."""

    goal_id: GoalId
    expected_revision: Revision
    title: Title | None = None
    objective: Objective | None = None
    controller_agent_id: Annotated[Controller | None, Field(description="Null clears the label.")] = None
    lifecycle: Annotated[Lifecycle | None, Field(description="Completed and cancelled are final.")] = None
    terminal_reason: Annotated[
        TerminalReason | None, Field(description="Why it ended; only with a final lifecycle.")
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: object) -> object:
        """Leaves a null label in place, since here it has a meaning (M-13, G-31)."""
        if not isinstance(value, dict):
            return value
        required = {key for key, field in cls.model_fields.items() if field.is_required()}
        kept = required | {"controller_agent_id"}
        return {
            key: item
            for key, item in value.items()
            if item is not None or key in kept or key not in cls.model_fields
        }

    @property
    def names_controller(self) -> bool:
        """Says whether the label is to be set or cleared."""
        return "controller_agent_id" in self.model_fields_set

    def parameters(self) -> JsonObject:
        """Returns what a replay must repeat; an absent label is not a null one."""
        given: dict[str, Any] = ChangeParams.parameters(self)
        if not self.names_controller:
            del given["controller_agent_id"]
        return given


class AssociateSessionParams(ChangeParams):
    """A Goal and the Workflow Session it is to be linked to."""

    goal_id: GoalId
    session_id: SessionName
    expected_revision: Revision | None = None


class AssociateTaskParams(ChangeParams):
    """A Goal and the AgentTask it is to be linked to."""

    goal_id: GoalId
    task_id: Annotated[
        str, Field(pattern=goals.AGENT_TASK_ID, description="Exact AgentTask id, wc_agent_task_...")
    ]
    expected_revision: Revision | None = None
