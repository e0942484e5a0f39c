"""From rows on disk to batches: manifests, sound, fields, streams, plans, the loader."""
