"""Independent checks of everything generated; nothing here is shared with a maker."""
