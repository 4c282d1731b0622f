"""The calls of one reply: the agent's gate, the people who are asked, the runs and their results.

What belongs here acts for one reply. That the model is asked again afterwards is the loop's.
"""
