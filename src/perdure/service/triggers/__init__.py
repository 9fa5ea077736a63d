"""Triggers as people and programs have them: registered, read, fired and looked after, and the deliveries of webhooks."""
