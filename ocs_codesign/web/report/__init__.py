"""The report of a bundle: one page with its own style and pictures, in the look of the explorer."""
