"""From rows on disk to batches: manifests, fields, streams, plans, the loader."""
