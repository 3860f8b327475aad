"""Send events to other services by HTTP (docs/webhooks.md).

    tables      the settings [webhooks.NAME]          messages    which events, and their words
    receiver    one signed request, and its answer    doctor      whether addresses and secrets can be read
    follower    the feed, from a bookmark on          cli         muster webhooks

A bookmark moves when all events before it are delivered, or kept as undelivered. So an event may be sent
twice, and none is forgotten. Receivers drop what they know by the id of the event.
"""
