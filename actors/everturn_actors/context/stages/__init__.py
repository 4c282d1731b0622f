"""Stages: each makes a projection smaller in one way, and says what it did. Pure.

A function here takes its numbers and gives a `Stage`:
`stage(projection, budget) -> (projection, reductions)`. A stage that has nothing to do gives the
same projection and no reduction, and one that is applied to its own output has nothing to do. None
can leave half a step.
"""
