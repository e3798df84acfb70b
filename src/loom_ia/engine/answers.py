"""What the engine makes of an answer before it is a fact: cut calls, refusals, unknown tokens."""

from __future__ import annotations

from loom_ia.core.failures import ModelRefusedError, ModelTruncatedError
from loom_ia.core.model import Answer, Message, ModelRequest, ToolCallBlock, Usage
from loom_ia.core.model.arguments import cut
from loom_ia.core.model.estimate import CHARACTERS, Estimate, output_tokens
from loom_ia.core.model.stops import MEANINGS


def fit(answer: Answer, request: ModelRequest) -> Answer:
    """The answer, with the calls that may not run marked as cut.

    Raises:
        ModelRefusedError: the model declined, or a filter did; what it wrote is set aside.
        ModelTruncatedError: its limit came before its first word.

    """
    if answer.stop in {"end", "calls"}:
        return answer
    meaning, name = MEANINGS[answer.stop], request.spec.id
    if meaning.text == "set aside":
        reason = answer.detail or answer.stop
        raise ModelRefusedError(usage=answer.usage, model=name, reason=reason)
    message = answer.message
    if answer.stop == "length" and not message.calls and not message.text.strip():
        reason = "cut before its first word"
        raise ModelTruncatedError(usage=answer.usage, model=name, reason=reason)
    if not message.calls:
        return answer
    blocks = tuple(cut(b) if isinstance(b, ToolCallBlock) else b for b in message.blocks)
    cut_message = Message(role=message.role, blocks=blocks, mark=message.mark)
    return answer.model_copy(update={"message": cut_message})


def counted(answer: Answer, request: ModelRequest, estimate: Estimate) -> Usage:
    """Tokens of an answer whose provider told none that can be believed: flagged, never zero."""
    return Usage(
        input=estimate.input(request), output=output_tokens(answer.message), estimated=True
    )


def partly(announced: Usage | None, characters: int) -> Usage | None:
    """Tokens of an attempt that failed on its way; None when the provider announced nothing."""
    if announced is None:
        return None
    written = max(announced.output, -(-characters // CHARACTERS))
    return announced.model_copy(update={"output": written, "estimated": True})
