"""Images that a model is shown: files of the workspace, scaled to what models take."""
