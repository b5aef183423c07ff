"""Units for webhooks, and what is known about their receivers."""
