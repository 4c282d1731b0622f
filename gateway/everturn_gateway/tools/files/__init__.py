"""Tools for the files of an agent's workspace.

- `document_program`: makes text of a PDF or an office file
- `documents`: has PDFs and office files read as text by a process of its own, see
  `document_program`
- `editing`: replaces text in a text
- `finder`: finds files and lines below a folder
- `finding`: has files and lines found by `finder`, in a process of its own
- `listing`: what a folder holds, and what was found, as text for the model
- `plugin`: the plug-ins `files` and `send_file`
- `reading`: pages of a text file, with the numbers of its lines
- `sending`: the tool by which an agent sends a file to the people it talks with
- `tools`: the file tools: what the model is told of them, and what they do
- `workspace`: the folder in which the tools of an agent work
- `writing`: a tool that writes a file of the workspace, and says which before it does
"""
