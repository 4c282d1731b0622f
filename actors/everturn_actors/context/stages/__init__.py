"""Stages: each makes a projection smaller in one way, and says what it did. Pure.

A function here takes its numbers and gives a `Stage`:
`stage(projection, budget) -> (projection, reductions)`. A stage that has nothing to do gives the
same projection and no reduction, and one that is applied to its own output has nothing to do. None
can leave half a step.

- `clearing`: stages that take the text of old tool results away; the calls stay
- `cutting_ahead`: the stage that leaves out the oldest whole turns, in a jump
- `emergency`: the stage that brings messages down to a size, after a provider refused them
- `masking`: the stage that takes old results and long old arguments away, once that pays
- `pasting`: the stage that takes in a giant message of a person as results are taken in
- `sanitising`: the stage that leaves out what some providers refuse in an imported history
- `shrinking`: stages that make the newest turn fit, where it is all that is left: it never leaves
- `texts`: stages that make single texts smaller: results, the newest question, call arguments
- `truncation`: stages that leave out whole blocks: windows, turns, iterations, emergency halving
"""
