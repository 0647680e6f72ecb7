"""What a prediction is worth: strict scores on sets of mentions, plain Python that knows no model.

`metric` counts, `shapes` tells the shapes apart, `compare` scores one file against another,
`lengths` groups by the number of words, `significance` asks whether one system beats another by more than
luck, `report` prints.
"""
