"""Reads dead letter queues, groups dead letters by cause, checks them against an edited configuration, and replays them."""
