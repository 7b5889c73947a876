"""config.pbtxt as text: read it as Triton does, view it, edit it in place, show the difference.

`tritune.pbtxt.message` has what other packages call; nothing here needs a file or a server.
"""
