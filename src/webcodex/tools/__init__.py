"""The verbs: each declared once, all invoked by one road."""
