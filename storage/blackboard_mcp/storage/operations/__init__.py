"""Operations of a board store, written once for every SQL engine.

Each operation is a plain generator that yields statements and is sent their rows. An engine runs it to its end
inside one transaction. Nothing here awaits, sleeps, reads the clock or knows a database driver.
"""
