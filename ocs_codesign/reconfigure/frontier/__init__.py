"""The frontier with reconfiguration: steps, t_b and configurations."""
