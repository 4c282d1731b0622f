"""Functions as tools: one that runs by itself, and one that waits for a person's word."""

from __future__ import annotations

import anyio

import everturn

STOCK = {"tea": 3, "coffee": 0}


@everturn.tool(read_only=True)
def stock(article: str) -> int:
    """Tell how many of an article there are.

    Args:
        article: What it is called.
    """
    if article not in STOCK:
        # The model reads this, and may try another one.
        msg = f"there is no {article}; there are: {', '.join(STOCK)}"
        raise everturn.ToolFailedError(msg)
    return STOCK[article]


@everturn.tool(needs_approval=True)
async def order(article: str, count: int, context: everturn.ToolContext) -> str:
    """Order more of an article.

    Args:
        article: What it is called.
        count: How many.
        context: Where the call runs; the model does not see this one.
    """
    STOCK[article] = STOCK.get(article, 0) + count
    return f"{count} of {article} ordered in {context.key.chat}"


# The built-in responder calls the tools that it is told to call. A model decides for itself.
AGENT = everturn.Agent(name="clerk", model="builtin/echo", tools=[stock, order])


async def approve(gateway: everturn.Gateway, submission: everturn.Submission) -> None:
    """Allow what waits, as soon as it does; a program would ask a person here."""
    async for _ in submission.updates():
        for each in await gateway.approvals():
            print(f"may {each.agent} call {each.tool} with {each.arguments}? yes")
            await gateway.decide(each, "allow_once", by="the owner")


async def main() -> None:
    """Ask for both."""
    async with everturn.open_gateway(AGENT) as gateway:
        print((await gateway.ask("clerk", 'call stock {"article": "tea"}')).text)
        print((await gateway.ask("clerk", 'call stock {"article": "milk"}')).text)
        wish = 'call order {"article": "coffee", "count": 5}'
        submission = await gateway.submit("clerk", wish, conversation="shop")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(approve, gateway, submission)
            print((await submission.result()).text)


if __name__ == "__main__":
    anyio.run(main)
