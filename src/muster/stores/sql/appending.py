"""How a row gets into the event log. Drivers know this statement, because some append at the very end."""

COLUMNS = ("at", "entity", "entity_id", "version", "name", "changes", "detail", "actor")
INTO = f"INSERT INTO events ({', '.join(COLUMNS)})"
APPEND = f"{INTO} VALUES ({', '.join(f':{name}' for name in COLUMNS)})"
