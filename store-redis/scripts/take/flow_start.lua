local state, tries = value, count
