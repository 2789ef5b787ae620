"""When a job's circuits change inside an iteration, and back before the next one."""
