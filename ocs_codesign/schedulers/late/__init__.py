"""Late schedules: the best of so many steps over any routes, by columns that are made as needed."""
