import asyncio

import perdure


async def weather(city: str, ctx: perdure.Context) -> dict[str, int]:
    if ctx.attempt == 1:
        raise ConnectionError("no answer from the weather service")
    return {"degrees": 17 + len(city)}


async def news(city: str) -> dict[str, str]:
    await asyncio.sleep(0.1)
    return {"headline": f"Quiet Day in {city}"}
