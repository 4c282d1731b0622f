"""Images that a model is shown: files of the workspace, scaled to what models take.

- `plugin`: the plug-in `view_image`
- `program`: scales one image to what models take
- `scaling`: has images scaled by a process of its own, see `program`
- `viewing`: the tool by which an agent looks at an image of its workspace
"""
