"""Messages between agents: requests, subscriptions, consumer groups."""
