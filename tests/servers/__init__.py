"""Private servers for tests, from wheels or from the machine: started when first asked for, gone when the session ends."""
