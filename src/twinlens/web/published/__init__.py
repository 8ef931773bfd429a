"""A site of evidence packs, as plain files for any host: each pack checked, only comparable figures side by side."""
