"""The vocabulary and what a situation is; imports nothing else of the package."""
