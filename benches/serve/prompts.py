"""Prompts by category, in the manner of Spec-Bench (Xia et al., 2024), with code edits; all written here."""
# ruff: noqa: E501 - texts

from __future__ import annotations

ARTICLE = """The town of Hallbrook opened its new tram line on Monday. The line runs from the harbour to the \
hospital and has eleven stops. Building it took four years and cost 86 million euros, six million more than \
planned. The mayor, Ingrid Sole, said that the line would carry 14,000 people a day. Shop owners in Mill Street \
complained about the noise of the works, which had kept customers away for two summers. The operator has \
bought nine trams; each holds 180 people and runs on power from the wind farm at Cape Orren. Tickets cost the \
same as on the buses. A second line, from the station to the university, is to follow in three years if the \
council agrees in spring."""

MANUAL = """1. Installation. Put the filter on a flat surface at least 20 cm from the wall. Connect the hose to the \
cold water tap. Open the tap slowly and let two litres run through before first use.
2. Daily use. Press the blue button to draw filtered water. The light turns green when the water is ready. Do \
not draw more than five litres an hour.
3. Cleaning. Clean the outside with a damp cloth. Do not use alcohol. Rinse the tank every two weeks with warm \
water.
4. Replacing the cartridge. Replace the cartridge after 600 litres or six months, whichever comes first. Turn \
off the tap, press the red button until the pressure is gone, turn the cartridge to the left and pull it out. \
Put in the new cartridge and turn it to the right until it clicks.
5. Faults. If the light blinks red, the pressure is too low: open the tap. If it stays red, the cartridge is \
used up. If water leaks at the bottom, turn off the tap and call the service at extension 4471."""

CODE = """def load_orders(path):
    orders = []
    with open(path) as file:
        for line in file:
            parts = line.strip().split(",")
            if len(parts) != 4:
                continue
            order_id, customer, amount, currency = parts
            orders.append({
                "id": int(order_id),
                "customer": customer,
                "amount": float(amount),
                "currency": currency,
            })
    return orders


def total_by_customer(orders):
    totals = {}
    for order in orders:
        customer = order["customer"]
        totals[customer] = totals.get(customer, 0.0) + order["amount"]
    return totals


def print_report(orders):
    totals = total_by_customer(orders)
    for customer, amount in sorted(totals.items()):
        print(f"{customer}: {amount:.2f}")
"""

CATEGORIES: dict[str, tuple[str, ...]] = {
    "summarise": (
        f"{ARTICLE}\n\nSummarise the article in three sentences, keeping its own words where you can.",
        f"{MANUAL}\n\nSummarise each of the five sections in one sentence. Keep the numbering.",
    ),
    "retrieval": (
        f"{MANUAL}\n\nQuote the complete section about replacing the cartridge, word for word.",
        f"{ARTICLE}\n\nQuote every sentence of the article that contains a number.",
    ),
    "edit": (
        f"```python\n{CODE}```\n\nRename `amount` to `value` everywhere. Answer with the whole changed code only.",
        f"```python\n{CODE}```\n\nAdd a docstring to every function. Answer with the whole changed code only.",
    ),
    "chat": (
        "What should I think about before I adopt a dog? Answer in a short paragraph.",
        "Explain to a ten-year-old why the sea is salty.",
    ),
    "writing": (
        "Write the opening of a story about a lighthouse keeper who finds a letter.",
        "Write a short poem about the first snow.",
    ),
    "translation": (
        "Translate to German: The train leaves at seven, but we should be at the station half an hour earlier.",
        "Translate to French: The committee has decided to move the meeting to Thursday because of the strike.",
    ),
    "mathematics": (
        "A shop sells pens at 3 for 4 euros. How much do 27 pens cost? Show your steps.",
        "The sum of two numbers is 30 and their difference is 4. What are they? Show your steps.",
    ),
    "code": (
        "Write a Python function that checks whether a string is a palindrome, ignoring case and spaces.",
        "Write an SQL query that lists the five customers with the largest total of orders.",
    ),
}

COPYING = ("summarise", "retrieval", "edit")
"""Categories whose answers repeat their prompts."""
