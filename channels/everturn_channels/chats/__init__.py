"""What is known of a platform's chats: their ids, kinds, cursors, and which of them are blocked."""
