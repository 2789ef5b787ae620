"""Files of jobs, and of budgets for what they send."""
