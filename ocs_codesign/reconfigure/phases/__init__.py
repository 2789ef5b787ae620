"""All-to-all over configurations held in turn, with the best routing over them."""
