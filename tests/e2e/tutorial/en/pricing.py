from loom_ia.tools import tool


@tool(side_effects="none")
def price_with_tax(net: float, rate: float = 20.0) -> dict[str, float]:
    """Compute the VAT and the total of a quote. The rate is a percentage."""
    tax = round(net * rate / 100, 2)
    return {"net": net, "tax": tax, "total": round(net + tax, 2)}
