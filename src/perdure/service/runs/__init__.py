"""Runs as people and programs have them: started, listed, read part by part, followed, changed and carried elsewhere."""
