"""faces.web.report."""
