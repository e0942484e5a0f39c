"""From corpora to manifests: what readers have in common, checks, reports, and the work of preparing."""
