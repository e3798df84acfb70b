"""What a function needs to be a policy."""

from loom_ia.core.policy import (
    CONTINUE,
    BeforeTool,
    Continue,
    Decision,
    Deny,
    Fail,
    Pause,
    PolicyContext,
    Replace,
)
from loom_ia.policies.decorator import policy

__all__ = (
    "CONTINUE",
    "BeforeTool",
    "Continue",
    "Decision",
    "Deny",
    "Fail",
    "Pause",
    "PolicyContext",
    "Replace",
    "policy",
)
