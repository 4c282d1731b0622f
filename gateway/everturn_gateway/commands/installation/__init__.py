"""What comes with the program: its documentation, and what an upgrade brings.

- `changelog`: what changed between two versions, as the changelog says it
- `documentation`: `everturn help TOPIC`: the pages of the documentation, from the installed program
  itself
- `project_files`: finds the files of the project that come with the program
- `site`: `everturn docs`: the documentation in a browser
- `upgrade`: `everturn upgrade`: what is new, and what of a workspace is written anew
"""
