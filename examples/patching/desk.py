"""What the agent and the nodes of the example do."""


def missing(customer: str) -> list[str]:
    """What is missing before a customer can begin."""
    return ["a training"]


def book(what: str) -> str:
    """Books something for a customer."""
    return f"{what} is booked"


def open_account(customer: str) -> str:
    return f"{customer} may begin"
