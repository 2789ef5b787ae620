"""BFB: breadth-first broadcast schedules with the least load in every step."""
