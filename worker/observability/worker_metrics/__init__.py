"""What a worker exports about itself, and the collection of everything for one scrape."""
