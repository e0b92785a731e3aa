"""Knowledge about databases that several connectors share: text formats, arrays, dates."""
