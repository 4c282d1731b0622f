"""`schedule`: messages and tasks for later, in the conversation that asked for them.

- `arguments`: what a call of `schedule` may say, and the job that it asks for
- `plugin`: the plug-in `schedule`
- `texts`: what is said of scheduled jobs to the model
- `tool`: `schedule`: an agent makes, lists and calls off jobs of the conversation that it is in
"""
