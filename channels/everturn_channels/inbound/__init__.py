"""What becomes of everything that people write, click and command, whatever their platform.

- `access_control`: who is let in: finds the agent for a chat, asks the rules, and tells those who
  are refused
- `backlog`: messages that are not read, being too old, too many or garbled: they are counted and
  told of
- `button_clicks`: what becomes of a clicked button: it answers the question it stands below, or
  says why not
- `command_handler`: what becomes of commands and buttons that arrive: they are answered at once,
  also in a turn
- `commands`: the commands people give in a chat, and what they are answered
- `dispositions`: what a failure says of what was being taken: its own fault, or a matter of time
- `event_resolver`: resolves what adapters hand in: it is durable, or never will be, or has to wait
- `file_fetch`: gets the files that come with a message, within limits of size, time and memory
- `inbound_handler`: what an adapter hands events to: each goes to whoever deals with its kind
- `message_text`: what a model reads of a message: its words, and in brackets what else there is to
  know
- `notifier`: lines of the channel itself to people, and other small work beside it that may be left
  undone
- `platform_status`: what an adapter tells of its platform: that it is there, cannot be read, or
  wants a login
- `reactions`: what becomes of a reaction that somebody puts on a message of the bot's
- `receiver`: what becomes of messages that arrive, and of edits of them
- `reports`: what a session is and what stands in its context, as Markdown for people in a chat
- `running_channel`: what one channel works with while it runs
- `status_reactions`: reactions on a person's message that say how far it is: seen, being worked on,
  done
- `submission_rules`: how a message is handed to its conversation: under which name, and how it
  waits there
- `text_files`: which files can be shown as text
- `owners/`: what owners do from a private chat, and the questions that are brought to them
"""
