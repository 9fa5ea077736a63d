"""The tool of the agent of `make demo-agent`."""

import time
from pathlib import Path


def lookup(company: str) -> dict:
    """Looks a company up."""
    with Path("asked.txt").open("a") as asked:
        asked.write(f"{company}\n")
    time.sleep(2)  # a slow directory: there is time to kill the process in the middle
    return {"company": company, "seats": 4200, "country": "Norway", "pays": "on time"}
