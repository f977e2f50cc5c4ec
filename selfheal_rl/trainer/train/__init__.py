"""Learning: recipes, PPO, run directories, export, and tuning of rule tables."""
