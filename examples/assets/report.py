"""A table as a file, of any size: one function writes it, others read it, and none holds it in memory."""

import csv

import perdure


@perdure.task
def write(ctx: perdure.Context, rows: int) -> perdure.Asset:
    path = ctx.folder / "orders.csv"  # gone when the attempt ends; by then the asset is stored
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["order", "amount", "note"])
        out.writerows([number, number % 97, "x" * 80] for number in range(rows))
    return perdure.Asset(path, "text/csv")


@perdure.task
def total(orders: perdure.Asset) -> int:
    with orders.path().open(newline="") as file:  # a copy on this machine, checked against its hash
        return sum(int(row["amount"]) for row in csv.DictReader(file))


@perdure.task
async def lines(orders: perdure.Asset) -> int:
    found = 0
    async for piece in orders.pieces():  # a megabyte at a time
        found += piece.count(b"\n")
    return found


@perdure.task
def summary(sum_of_all: int, count: int) -> perdure.Asset:
    return perdure.Asset(f"{count} lines, {sum_of_all} in all\n", name="summary.txt")


@perdure.workflow
def report(rows: int = 1000):
    orders = write(rows)
    return {"orders": orders, "summary": summary(total(orders), lines(orders))}


if __name__ == "__main__":
    run = perdure.run(report, rows=1000)
    print(run.state, run.outputs["summary"]["$asset"]["name"])
