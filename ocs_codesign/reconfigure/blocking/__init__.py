"""Keep or switch: which topology to hold in which step when a change stops the fabric."""
