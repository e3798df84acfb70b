"""What a function needs to be a policy."""

from loom_ia.core.policy import (
    CONTINUE,
    AfterModel,
    AfterTool,
    BeforeModel,
    BeforeTool,
    Continue,
    Decision,
    Deny,
    Fail,
    OnOutput,
    Pause,
    PolicyContext,
    Repair,
    Replace,
    Stop,
    Subject,
)
from loom_ia.policies.decorator import policy

__all__ = (
    "CONTINUE",
    "AfterModel",
    "AfterTool",
    "BeforeModel",
    "BeforeTool",
    "Continue",
    "Decision",
    "Deny",
    "Fail",
    "OnOutput",
    "Pause",
    "PolicyContext",
    "Repair",
    "Replace",
    "Stop",
    "Subject",
    "policy",
)
