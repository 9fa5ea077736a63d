"""What a call may use at most, told before it is made: so much of the budget is set aside for it (rule 82)."""

from __future__ import annotations

import msgspec

from perdure.llms.operator_file import Found
from perdure.llms.port import Image, LlmError, Message, Request, Text, Usage
from perdure.llms.prices import priced

BYTES_A_TOKEN = 3
"""A guess that is rather too high for prose, so that an estimate is rarely too low; what was really used is counted."""
TOKENS_A_MESSAGE = 8
"""What a provider writes around each message."""
TOKENS_AN_IMAGE = 2_000


def estimate(found: Found, request: Request) -> Usage:
    """What a call may use at most, as far as can be told before it is made. Raises LlmError if the model cannot read so
    much."""
    size = len(msgspec.json.encode(msgspec.structs.replace(request, messages=())))
    images = 0
    for one in request.messages:
        found_size, found_images = _measure(one)
        size, images = size + found_size, images + found_images
    around = (len(request.messages) + 1) * TOKENS_A_MESSAGE
    tokens = size // BYTES_A_TOKEN + images * TOKENS_AN_IMAGE + around
    most = request.params.max_output_tokens or found.row.max_output
    if found.row.context is not None and size // 8 + most > found.row.context:  # no tokenizer makes fewer of them
        message = f"the prompt has {size:,} bytes, and {found.name} reads {found.row.context:,} tokens"
        raise LlmError("llm:context_too_long", message, sent=False)
    guess = Usage(input=tokens, output=most, calls=1)
    if found.price is not None and found.price.writes_cost_more:  # the provider may take all of it into its cache
        guess = msgspec.structs.replace(guess, written=tokens)
    return priced(guess, found.price)


def _measure(message: Message) -> tuple[int, int]:
    images = sum(isinstance(part, Image) for part in message.parts)
    size = 0
    for part in message.parts:
        if isinstance(part, Text):
            size += len(part.text.encode("utf-8", "surrogatepass"))
        elif not isinstance(part, Image):
            size += len(msgspec.json.encode(part))
    return size, images
