"""What an office does with a contract."""


def check(title: str, value: float) -> dict[str, object]:
    return {"title": title, "risk": "low" if value < 1_000 else "high" if value > 100_000 else "medium"}


def file(title: str, risk: str) -> dict[str, str]:
    return {"place": f"cabinet {risk[0].upper()}, {title}"}


def send_back(title: str) -> dict[str, str]:
    return {"sent": f"{title}: please see the comments"}
