"""Text from outside: cleaned, fenced, and what of it a request shows.

- `cleaning`: makes the text of a tool fit to be kept and sent: no broken characters, no secrets
- `fencing`: puts text from outside between marks that it cannot imitate
- `given`: which addresses a model was given, word for word, and which it made up itself
- `shown`: what a call may do while text from outside is shown to the model that wrote it
"""
