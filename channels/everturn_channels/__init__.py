"""Where people write from: adapters between a platform and the core.

- `adapter`: what a chat platform has to do to be a channel, and the values that pass between the
  two
- `boxes`: quotes and lists that are open while Markdown is read: what stands before each line in
  them
- `channel_context`: what stands behind every channel: the service, and who may use it
- `chunks`: cuts a text into pieces of at most a platform's size
- `connection_drain`: lets what is being sent arrive before its connection is closed
- `errors`: errors of the channels: what goes wrong between a person and a conversation
- `health`: the status of a channel: what its runner notes, and what people are shown
- `keeping`: what stays with the model: notes about whom it talks with, and pinned messages, as
  people ask
- `command_registry`: the one list of commands: names, arguments, who may give them, and where
- `menu_sync`: keeps the menu of a bot as its commands are: at each login, and when agents have
  others
- `models`: which model answers, as people ask and choose it
- `money`: what something cost, as people read it
- `names`: what others wrote, made fit to be shown: names in one line, texts that hide nothing
- `online`: who says things on a platform, which is nobody between two logins
- `prompts`: prompts of MCP servers: what a person types after `/prompt`, and the list that they see
- `rate_limits`: how often something may happen: a line in the log, a word to a person, a message
- `reasons`: reasons that the core and the tools give in fixed words
- `references`: lines of Markdown that say where links lead
- `runner`: keeps one channel running: logs in, hands on what comes, and begins anew whatever
  happens
- `settings`: the settings of channels, as values; the gateway reads them from its configuration
- `tables`: tables of Markdown as lines of code, in columns: for platforms that show none
- `texts`: the short texts that people get from the gateway itself
- `access/`: who may talk to an agent: rules, pairing, owners
- `chats/`: what is known of a platform's chats: their ids, kinds, cursors, and which of them are
  blocked
- `delivery/`: what sessions say, on its way to people: nothing is lost, nothing is repeated unsaid
- `discord/`: the Discord channel: a bot account over discord.py
- `inbound/`: what becomes of everything that people write, click and command, whatever their
  platform
- `ingestion/`: how the events of a platform come in: what every adapter needs and none builds by
  itself
- `languages/`: texts for people in their language: one file of them for each language but English
- `matrix/`: the Matrix channel: one account on a homeserver
- `plugin/`: channels that are programs of their own: lines of JSON on standard input and output
- `telegram/`: the Telegram channel
- `terminal/`: a conversation in a terminal
- `whatsapp/`: the WhatsApp channel: one number of the Cloud API
"""
