"""What runs beside the agent: diagnosis, journal, decision and healing."""
